// Multi is the one place where an event goes to several observers: to each, in the given order, one after the other.

package observe

// Multi tells each of the observers, in the given order. Nil ones are left out.
func Multi(observers ...Observer) Observer {
	var all multi
	for _, o := range observers {
		if o != nil {
			all = append(all, o)
		}
	}
	return all
}

type multi []Observer

func (m multi) Observe(e Event) {
	for _, o := range m {
		o.Observe(e)
	}
}
