package explore

import (
	"reflect"
	"sync"
	"time"
	"unsafe"

	"github.com/sony/gobreaker/v2"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/consumer/internal/decide"
)

// A world is copied before each step, deciders and all. The copy goes by the types, so a field that is added to a decider is copied without
// being named here. What can't change is shared: strategies, errors, texts.

// copied are the packages whose values are copied; what pointers to other types lead to is shared.
var copied = map[string]bool{
	reflect.TypeFor[decide.Desk]().PkgPath():                        true,
	reflect.TypeFor[breaker.Breaker]().PkgPath():                    true,
	reflect.TypeFor[gobreaker.CircuitBreaker[struct{}]]().PkgPath(): true,
	reflect.TypeFor[world]().PkgPath():                              true,
}

// clone makes a world that shares nothing with w that can change.
func (w *world) clone() *world {
	c := cloner{memo: make(map[unsafe.Pointer]unsafe.Pointer, 64), settings: w.plan.settings()}
	out := w
	mendOf(reflect.TypeFor[*world]())(&c, unsafe.Pointer(&out))
	return out
}

type cloner struct {
	memo     map[unsafe.Pointer]unsafe.Pointer
	settings breaker.Settings
}

// A mend turns a shallow copy into a deep one. nil: there is nothing to mend.
type mend func(c *cloner, at unsafe.Pointer)

var mends sync.Map // reflect.Type to mend

func mendOf(t reflect.Type) mend {
	if m, ok := mends.Load(t); ok {
		return m.(mend)
	}
	m := makeMend(t)
	mends.Store(t, m)
	return m
}

var (
	breakerType = reflect.TypeFor[breaker.Breaker]()
	engineType  = reflect.TypeFor[gobreaker.CircuitBreaker[struct{}]]()
	planType    = reflect.TypeFor[plan]()
	timeType    = reflect.TypeFor[time.Time]()
)

func makeMend(t reflect.Type) mend {
	switch t.Kind() {
	case reflect.Pointer:
		e := t.Elem()
		if !copied[e.PkgPath()] || e == planType {
			return nil
		}
		if e == breakerType {
			return mendBreaker
		}
		mendElem := sync.OnceValue(func() mend { return mendOf(e) }) // when it is asked for: types refer to themselves
		return func(c *cloner, at unsafe.Pointer) {
			p := (*unsafe.Pointer)(at)
			if *p == nil {
				return
			}
			if done, ok := c.memo[*p]; ok {
				*p = done
				return
			}
			n := reflect.New(e)
			n.Elem().Set(reflect.NewAt(e, *p).Elem())
			c.memo[*p] = n.UnsafePointer()
			*p = n.UnsafePointer()
			if m := mendElem(); m != nil {
				m(c, *p)
			}
		}
	case reflect.Struct:
		if t == timeType {
			return nil
		}
		return mendFields(t, func(reflect.StructField) bool { return true })
	case reflect.Slice:
		m := mendOf(t.Elem())
		size := t.Elem().Size()
		return func(c *cloner, at unsafe.Pointer) {
			old := reflect.NewAt(t, at).Elem()
			if old.IsNil() {
				return
			}
			n := reflect.MakeSlice(t, old.Len(), old.Len())
			reflect.Copy(n, old)
			old.Set(n)
			for i := 0; m != nil && i < n.Len(); i++ {
				m(c, unsafe.Add(n.UnsafePointer(), uintptr(i)*size))
			}
		}
	case reflect.Array:
		m := mendOf(t.Elem())
		if m == nil {
			return nil
		}
		return func(c *cloner, at unsafe.Pointer) {
			for i := range t.Len() {
				m(c, unsafe.Add(at, uintptr(i)*t.Elem().Size()))
			}
		}
	case reflect.Map:
		m := mendOf(t.Elem())
		return func(c *cloner, at unsafe.Pointer) {
			old := reflect.NewAt(t, at).Elem()
			if old.IsNil() {
				return
			}
			n := reflect.MakeMapWithSize(t, old.Len())
			for it := old.MapRange(); it.Next(); {
				v := reflect.New(t.Elem())
				v.Elem().Set(it.Value())
				if m != nil {
					m(c, v.UnsafePointer())
				}
				n.SetMapIndex(it.Key(), v.Elem())
			}
			old.Set(n)
		}
	case reflect.Interface:
		return func(c *cloner, at unsafe.Pointer) {
			i := reflect.NewAt(t, at).Elem()
			if i.IsNil() || i.Elem().Kind() != reflect.Pointer {
				return
			}
			if m := mendOf(i.Elem().Type()); m != nil {
				v := reflect.New(i.Elem().Type())
				v.Elem().Set(i.Elem())
				m(c, v.UnsafePointer())
				i.Set(v.Elem())
			}
		}
	default:
		return nil
	}
}

func mendFields(t reflect.Type, which func(reflect.StructField) bool) mend {
	type field struct {
		at uintptr
		m  mend
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		if m := mendOf(f.Type); m != nil && which(f) {
			fields = append(fields, field{f.Offset, m})
		}
	}
	if fields == nil {
		return nil
	}
	return func(c *cloner, at unsafe.Pointer) {
		for _, f := range fields {
			f.m(c, unsafe.Add(at, f.at))
		}
	}
}

var engineField, _ = breakerType.FieldByName("engine")

// mendBreaker copies a breaker into a new one, whose gobreaker calls back to the right place, and gobreaker's state into the new one's.
func mendBreaker(c *cloner, at unsafe.Pointer) {
	p := (*unsafe.Pointer)(at)
	if done, ok := c.memo[*p]; ok {
		*p = done
		return
	}
	old, n := reflect.NewAt(breakerType, *p).Elem(), reflect.ValueOf(breaker.New(c.settings))
	engine := (*unsafe.Pointer)(unsafe.Add(n.UnsafePointer(), engineField.Offset))
	keep := *engine
	n.Elem().Set(old)
	from := *engine
	*engine = keep
	for i := range engineType.NumField() {
		f := engineType.Field(i)
		if f.Type.Kind() == reflect.Func || f.Name == "mutex" {
			continue
		}
		dst := unsafe.Add(keep, f.Offset)
		reflect.NewAt(f.Type, dst).Elem().Set(reflect.NewAt(f.Type, unsafe.Add(from, f.Offset)).Elem())
		if m := mendOf(f.Type); m != nil {
			m(c, dst)
		}
	}
	c.memo[*p] = n.UnsafePointer()
	*p = n.UnsafePointer()
}
