package why

import "slices"

// gather numbers the incidents. Causes belong to one incident if one makes the holder of the other slow, or if
// their threads wait for the same holder.
func (r *Report) gather() {
	of := make([]int, len(r.Causes)) // the first cause of the incident
	join := func(i, j int) {
		from, to := max(of[i], of[j]), min(of[i], of[j])
		for k := range of {
			if of[k] == from {
				of[k] = to
			}
		}
	}
	for i := range r.Causes {
		of[i] = i
		h := r.Causes[i].Holder
		for j := range i {
			if h.same(r.Causes[j].Holder) {
				join(i, j)
			}
		}
	}
	for i := range r.Causes {
		if h := r.Causes[i].Holder; h != nil && h.Cause > 0 {
			join(i, h.Cause-1)
		}
	}
	number := make([]int, len(of))
	list := r.incidents(of)
	for n, in := range list {
		for _, i := range in.parts {
			number[i] = n + 1
		}
	}
	for i := range r.Causes {
		r.Causes[i].Incident = number[i]
	}
}

// same reports whether threads wait for one holder.
func (h *Holder) same(o *Holder) bool {
	return h != nil && o != nil && h.Scope == o.Scope && h.Self == o.Self && h.Evidence == o.Evidence
}

// incident is causes with the same reason.
type incident struct {
	parts []int // indices of causes, the reason first
	share float64
}

// incidents returns the incidents, the largest share first. of says which causes belong together.
func (r *Report) incidents(of []int) (list []incident) {
	at := make(map[int]int)
	for i := range r.Causes {
		n, ok := at[of[i]]
		if !ok {
			n = len(list)
			at[of[i]] = n
			list = append(list, incident{})
		}
		list[n].parts = append(list[n].parts, i)
		list[n].share += r.Causes[i].Share
	}
	for _, in := range list {
		// The reason is what no other cause explains. The others keep their order.
		reason := slices.IndexFunc(in.parts, func(i int) bool {
			h := r.Causes[i].Holder
			return h == nil || h.Cause == 0
		})
		if reason > 0 {
			i := in.parts[reason]
			copy(in.parts[1:], in.parts[:reason])
			in.parts[0] = i
		}
	}
	slices.SortStableFunc(list, func(a, b incident) int {
		switch {
		case a.share > b.share:
			return -1
		case a.share < b.share:
			return 1
		}
		return 0
	})
	return list
}

// numbered returns the incidents of a report whose causes have their numbers.
func (r *Report) numbered() []incident {
	of := make([]int, len(r.Causes))
	for i := range of {
		of[i] = r.Causes[i].Incident
	}
	return r.incidents(of)
}
