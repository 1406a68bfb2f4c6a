package convert

// perThreadBytes is a writer's memory per thread, without calls and names.
const perThreadBytes = 512

// perThread has a writer's state of each thread, by the Index of batches and blocks.
type perThread[T any] []T

// at returns the element of a thread, which is zero until it is set. It is valid until the
// next call.
func (p *perThread[T]) at(index int) *T {
	for len(*p) <= index {
		var zero T
		*p = append(*p, zero)
	}
	return &(*p)[index]
}
