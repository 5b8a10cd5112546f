package rlimit

import "testing"

func TestEnough(t *testing.T) {
	for _, test := range []struct {
		uid     int
		limit   uint64
		kernels int
		want    bool
	}{
		{0, 10, 100, true}, {1000, 64 + 24*6, 6, true}, {1000, 64 + 24*6 - 1, 6, false}, {1000, 1<<64 - 1, 6, true},
	} {
		if err := enoughThreads(test.uid, test.limit, test.kernels); (err == nil) != test.want {
			t.Errorf("%+v: %v", test, err)
		}
	}
	if enoughFiles(minFiles) != nil || enoughFiles(minFiles-1) == nil {
		t.Error("the limit of files is another one")
	}
	if err := Enough(1); err != nil {
		t.Error(err)
	}
}
