package queue

import (
	"reflect"
	"testing"
)

func TestRing(t *testing.T) {
	for _, tt := range []struct {
		name string
		put  []int
		want []int
	}{
		{"empty", nil, []int{}},
		{"not full", []int{1, 2}, []int{1, 2}},
		{"around", []int{1, 2, 3, 4, 5}, []int{3, 4, 5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := New[int](3)
			for _, v := range tt.put {
				r.Put(v)
			}
			if got := r.All(); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
