package explore

import (
	"fmt"
	"slices"
	"strings"
)

// The search visits every state that a plan can lead to, by every way, and holds two things against what it finds. Safety: no step breaks a
// law. Progress: in a kind world, from every state, all work comes to its end: there is no state without an exit, and no cycle in which
// everybody gets his turn and the work is not done for ever.

// A found is what a search has found: the story of a broken law, of a state without an exit, or of a cycle.
type found struct {
	what  string
	story []action
	cycle []action
}

func (f *found) String() string {
	text := f.what + "\n  " + join(f.story)
	if f.cycle != nil {
		text += "\n  and then again and again\n  " + join(f.cycle)
	}
	return text
}

func join(as []action) string {
	var words []string
	for _, a := range as {
		words = append(words, a.String())
	}
	return strings.Join(words, ", ")
}

type node struct {
	parent   int32
	by       action
	key      key
	edges    []edge // of the kind actions
	finished bool
}

// again is another way to a state that was known.
type again struct {
	from int32
	by   action
	to   int32
}

type edge struct {
	by action
	to int32
}

type search struct {
	plan  *plan
	limit int
	nodes []node
	index map[key]int32
	again []again // some of them
}

// explore searches a plan; nil: all is well. full says whether every state was seen, within the limit.
func explore(p *plan, limit int) (s *search, f *found, full bool) {
	s = &search{plan: p, limit: limit, index: map[key]int32{}}
	w := newWorld(p)
	path := []stop{s.visit(w, w.key(), -1, action{})}
	for len(path) > 0 {
		o := &path[len(path)-1]
		if len(o.todo) == 0 {
			path = path[:len(path)-1]
			continue
		}
		a := o.todo[0]
		o.todo = o.todo[1:]
		next := o.w
		if len(o.todo) > 0 {
			next = o.w.clone()
		}
		if next.do(a); next.broken != "" {
			return s, s.shorten(append(s.story(o.n), a)), false
		}
		k := next.key()
		to, seen := s.index[k]
		switch {
		case seen && len(s.again) < 30:
			s.again = append(s.again, again{o.n, a, to})
		case seen:
		case len(s.nodes) >= limit:
			return s, nil, false
		default:
			to = int32(len(s.nodes))
			from := o.n
			path = append(path, s.visit(next, k, from, a))
			o = &path[len(path)-2]
		}
		if a.kind() {
			s.nodes[o.n].edges = append(s.nodes[o.n].edges, edge{a, to})
		}
	}
	return s, s.stuck(), true
}

// stop is a state on the way that the search is going, with what is still to be tried there.
type stop struct {
	w    *world
	n    int32
	todo []action
}

// visit takes a new state in.
func (s *search) visit(w *world, k key, from int32, by action) stop {
	n := int32(len(s.nodes))
	s.index[k] = n
	s.nodes = append(s.nodes, node{parent: from, by: by, key: k, finished: w.finished()})
	return stop{w, n, w.actions()}
}

// story is how a state came about.
func (s *search) story(n int32) (as []action) {
	for ; s.nodes[n].parent >= 0; n = s.nodes[n].parent {
		as = append(as, s.nodes[n].by)
	}
	slices.Reverse(as)
	return as
}

// replay plays a story, as far as it is possible; it says what it broke.
func (s *search) replay(story []action) (w *world, played bool) {
	w = newWorld(s.plan)
	for _, a := range story {
		if !slices.Contains(w.actions(), a) {
			return w, false
		}
		if w.do(a); w.broken != "" {
			return w, true
		}
	}
	return w, true
}

// shorten takes steps out of a story as long as it still breaks the same law.
func (s *search) shorten(story []action) *found {
	w, _ := s.replay(story)
	law, _, _ := strings.Cut(w.broken, ":")
	for shorter := true; shorter; {
		shorter = false
		for i := len(story) - 1; i >= 0; i-- {
			try := slices.Delete(slices.Clone(story), i, i+1)
			if t, _ := s.replay(try); strings.HasPrefix(t.broken, law+":") {
				story, w, shorter = try, t, true
			}
		}
	}
	return &found{what: w.broken, story: story}
}

// stuck finds a state in which a kind world does not come to its end: nil where there is none.
func (s *search) stuck() *found {
	for i := range s.nodes {
		if n := &s.nodes[i]; !n.finished && len(n.edges) == 0 {
			return &found{what: "progress: a state without an exit", story: s.story(int32(i))}
		}
	}
	for _, component := range s.components() {
		if cycle := s.fair(component); cycle != nil {
			return &found{what: "progress: a cycle in which everybody gets his turn and the work is never done", story: s.story(component[0]), cycle: cycle}
		}
	}
	return nil
}

// fair reports whether a world can stay in a component for ever although each thing that stays possible is done at last; the answer
// is what is done there, nil where it can't.
func (s *search) fair(component []int32) (cycle []action) {
	in := map[int32]bool{}
	for _, n := range component {
		in[n] = true
	}
	always := map[action]int{} // in how many states it is possible
	done := map[action]bool{}
	for _, n := range component {
		for _, e := range s.nodes[n].edges {
			always[e.by]++
			if in[e.to] {
				done[e.by] = true
			}
		}
	}
	for a, states := range always {
		if states == len(component) && !done[a] {
			return nil
		}
	}
	return s.around(component, in)
}

// around is a walk through a component from its first state and back.
func (s *search) around(component []int32, in map[int32]bool) (walk []action) {
	type step struct {
		from int32
		by   action
	}
	came := map[int32]step{}
	todo := []int32{component[0]}
	for len(todo) > 0 {
		n := todo[0]
		todo = todo[1:]
		for _, e := range s.nodes[n].edges {
			if !in[e.to] {
				continue
			}
			if e.to == component[0] {
				walk = append(walk, e.by)
				for n != component[0] {
					walk = append(walk, came[n].by)
					n = came[n].from
				}
				slices.Reverse(walk)
				return walk
			}
			if _, ok := came[e.to]; !ok {
				came[e.to] = step{n, e.by}
				todo = append(todo, e.to)
			}
		}
	}
	return nil
}

// components are the parts of the kind world from each state of which each other can be reached (Tarjan), where the work is not finished
// and something happens.
func (s *search) components() (all [][]int32) {
	const unseen = -1
	low, number := make([]int32, len(s.nodes)), make([]int32, len(s.nodes))
	for i := range number {
		number[i] = unseen
	}
	onStack := make([]bool, len(s.nodes))
	var stack []int32
	type frame struct {
		n    int32
		edge int
	}
	var count int32
	for root := range s.nodes {
		if number[root] != unseen || s.nodes[root].finished {
			continue
		}
		calls := []frame{{n: int32(root)}}
		for len(calls) > 0 {
			f := &calls[len(calls)-1]
			n := f.n
			if f.edge == 0 {
				number[n], low[n] = count, count
				count++
				stack = append(stack, n)
				onStack[n] = true
			}
			if f.edge < len(s.nodes[n].edges) {
				to := s.nodes[n].edges[f.edge].to
				f.edge++
				switch {
				case s.nodes[to].finished:
				case number[to] == unseen:
					calls = append(calls, frame{n: to})
				case onStack[to]:
					low[n] = min(low[n], number[to])
				}
				continue
			}
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				p := calls[len(calls)-1].n
				low[p] = min(low[p], low[n])
			}
			if low[n] != number[n] {
				continue
			}
			at := slices.Index(stack, n)
			component := slices.Clone(stack[at:])
			stack = stack[:at]
			for _, m := range component {
				onStack[m] = false
			}
			if len(component) > 1 || slices.ContainsFunc(s.nodes[n].edges, func(e edge) bool { return e.to == n }) {
				all = append(all, component)
			}
		}
	}
	return all
}

func (s *search) String() string { return fmt.Sprintf("%d states", len(s.nodes)) }
