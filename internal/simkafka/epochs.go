package simkafka

// The coordinator's side of a group with group.protocol=consumer (KIP-848).
//
// There is no common stop. The group has an epoch and a target for each member; a member comes to its target on its own,
// with its heartbeats: first it gives up what the target has not, and only what others have given up is handed to it.
// A member that does not give up within max.poll.interval.ms is out.

import "slices"

func (g *group) joinEpoch(m *member) {
	m.client.joined(m.id, m.epoch)
	g.retarget()
	g.reconcile(m)
}

// retarget begins an epoch.
func (g *group) retarget() {
	g.rebalances++
	g.generation++
	g.state = stable
	for m, ps := range assignSticky(g.partitions(), g.members, func(m *member) []tp { return slices.Concat(m.owned, m.target) }) {
		m.target = ps
	}
	for _, m := range g.members {
		g.reconcileAtHeartbeat(m)
	}
}

func (g *group) reconcileAtHeartbeat(m *member) {
	g.k.coordinate(m.client.nextHeartbeat(), func() { g.reconcile(m) })
}

// reconcile answers a heartbeat with what the member may have now.
func (g *group) reconcile(m *member) {
	if g.member(m.id) != m || m.revoking || m.client.memberID != m.id {
		return
	}
	next := slices.Clone(m.target)
	if keep := intersect(m.owned, m.target); len(keep) < len(m.owned) {
		next = keep
		m.revoking = true
		m.revokes++
		n := m.revokes
		g.k.coordinate(g.k.now()+m.client.opt.MaxPollInterval, func() {
			if m.revoking && m.revokes == n {
				g.remove(m)
			}
		})
	} else {
		for _, other := range g.members {
			if other != m {
				next = subtract(next, other.owned)
			}
		}
		if m.epoch == g.generation && len(next) == len(m.owned) {
			return
		}
		m.owned, m.epoch = next, g.generation
	}
	m.sent = next
	epoch := m.epoch
	g.k.after(m.client.opt.Latency, func() { m.client.given(m.id, epoch, next) })
}

// acknowledge is the heartbeat in which a member says what it holds.
func (g *group) acknowledge(m *member, holds []tp) {
	if g.member(m.id) != m || !slices.Equal(holds, m.sent) {
		return
	}
	if m.revoking {
		m.revoking = false
		m.owned = m.sent
		for _, other := range g.members {
			if other != m && len(subtract(other.target, other.owned)) > 0 {
				g.reconcileAtHeartbeat(other)
			}
		}
	}
	g.reconcile(m)
}
