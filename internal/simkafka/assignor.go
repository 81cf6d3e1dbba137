package simkafka

// Who gets which partition. Members and partitions come sorted, so the outcome depends on nothing else.

import "slices"

// assignRange gives each member a run of each topic's partitions.
func assignRange(parts []tp, members []*member) {
	for _, m := range members {
		m.owned = nil
	}
	for len(parts) > 0 {
		name := parts[0].topic
		n := slices.IndexFunc(parts, func(p tp) bool { return p.topic != name })
		if n < 0 {
			n = len(parts)
		}
		of := parts[:n]
		parts = parts[n:]
		var takers []*member
		for _, m := range members {
			if slices.Contains(m.topics, name) {
				takers = append(takers, m)
			}
		}
		for i, m := range takers {
			m.owned = append(m.owned, of[i*n/len(takers):(i+1)*n/len(takers)]...)
		}
	}
}

// assignSticky leaves members what they have as far as the shares stay even. Of two who say they have the same partition
// the first keeps it.
func assignSticky(parts []tp, members []*member, has func(*member) []tp) map[*member][]tp {
	share := map[*member][]tp{}
	taken := map[tp]bool{}
	may := func(m *member, p tp) bool { return slices.Contains(m.topics, p.topic) }
	for _, m := range members {
		share[m] = nil
		for _, p := range has(m) {
			if _, exists := slices.BinarySearchFunc(parts, p, tp.compare); exists && !taken[p] && may(m, p) {
				taken[p] = true
				share[m] = append(share[m], p)
			}
		}
	}
	for _, p := range parts {
		if taken[p] {
			continue
		}
		var least *member
		for _, m := range members {
			if may(m, p) && (least == nil || len(share[m]) < len(share[least])) {
				least = m
			}
		}
		if least != nil {
			share[least] = append(share[least], p)
		}
	}
	for moveOne(members, share, may) {
	}
	for _, m := range members {
		slices.SortFunc(share[m], tp.compare)
	}
	return share
}

// moveOne moves a partition from a member to one that has at least two fewer.
func moveOne(members []*member, share map[*member][]tp, may func(*member, tp) bool) bool {
	for _, from := range members {
		for _, to := range members {
			if len(share[from]) < len(share[to])+2 {
				continue
			}
			for i := len(share[from]) - 1; i >= 0; i-- {
				if p := share[from][i]; may(to, p) {
					share[from] = slices.Delete(share[from], i, i+1)
					share[to] = append(share[to], p)
					return true
				}
			}
		}
	}
	return false
}

func intersect(a, b []tp) []tp {
	return slices.DeleteFunc(slices.Clone(a), func(p tp) bool { return !slices.Contains(b, p) })
}

func subtract(a, b []tp) []tp {
	return slices.DeleteFunc(slices.Clone(a), func(p tp) bool { return slices.Contains(b, p) })
}
