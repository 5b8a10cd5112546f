package compat

import (
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// modules are those of CPython's tests that are compared, the longest ones first.
var modules = []string{
	"test_asyncio", "test_subprocess", "test_threading", "test_datetime", "test_json", "test_decimal", "test_tempfile",
	"test_sqlite3", "test_re", "test_hashlib", "test_csv",
}

// retries is how often a test that differs is run again, alone and on both sides, before it counts: some depend on time.
const retries = 2

func TestCPython(t *testing.T) {
	testenv.Require(t, testenv.Sentry, testenv.Silk, testenv.Bwrap, testenv.Userns, testenv.Image(imageTag))
	list, err := readDifferences()
	if err != nil {
		t.Fatal(err)
	}
	silk, bwrap := newSilk(t), newBwrap(t)
	for _, module := range modules {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			compareModule(t, module, silk, bwrap, of(module, list))
		})
	}
}

// compareModule runs a module's tests on both sides; the ones that end the sandbox run alone, after the others.
func compareModule(t *testing.T, module string, silk, bwrap side, list []difference) {
	arguments := []string{module}
	for _, e := range list {
		if e.Silk == violated {
			arguments = append(arguments, "-i", e.Test)
		}
	}
	a, b := both(t, silk, bwrap, arguments, []string{module})
	a.mustBeWhole(t, "silk")
	b.mustBeWhole(t, "bwrap")
	inSilk, inBwrap := a.results, b.results
	for range retries {
		again := unexplained(inSilk, inBwrap, list)
		if len(again) == 0 {
			break
		}
		t.Logf("run again: %q", again)
		retry(t, module, again, silk, bwrap, inSilk, inBwrap)
	}
	for _, p := range problems(inSilk, inBwrap, list) {
		t.Error(p)
	}
	for _, e := range list {
		if e.Silk == violated {
			compareViolation(t, module, silk, e)
		}
	}
	t.Logf("%d tests", len(inBwrap))
}

// both runs tests on both sides at the same time: they mostly wait.
func both(t *testing.T, silk, bwrap side, silkArguments, bwrapArguments []string) (inSilk, inBwrap report) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() (err error) {
		inSilk, err = silk(ctx, silkArguments...)
		return err
	})
	group.Go(func() (err error) {
		inBwrap, err = bwrap(ctx, bwrapArguments...)
		return err
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return inSilk, inBwrap
}

// mustBeWhole ends t if the tests did not all run.
func (r report) mustBeWhole(t *testing.T, name string) {
	t.Helper()
	if !r.complete || len(r.results) == 0 {
		t.Fatalf("%s: the tests did not come to their end; %s; running were %q", name, r.detail, r.results.unfinished())
	}
}

func (r results) unfinished() []string {
	var names []string
	for name, got := range r {
		if got.kind == started {
			names = append(names, name)
		}
	}
	return names
}

// unexplained are the tests that differ and are not in the list.
func unexplained(silk, bwrap results, list []difference) []string {
	return slices.DeleteFunc(different(silk, bwrap), func(name string) bool {
		return slices.ContainsFunc(list, func(e difference) bool { return e.Test == name })
	})
}

// retry runs the named tests again on both sides and puts their results in place of the old ones.
func retry(t *testing.T, module string, names []string, silk, bwrap side, inSilk, inBwrap results) {
	t.Helper()
	arguments := []string{module}
	for _, name := range names {
		arguments = append(arguments, "-m", name)
	}
	a, b := both(t, silk, bwrap, arguments, arguments)
	for _, name := range names {
		t.Logf("%s: silk: %s, now %s; bwrap: %s, now %s", name,
			inSilk.describe(name), a.results.describe(name), inBwrap.describe(name), b.results.describe(name))
		if got, ran := a.results[name]; ran {
			inSilk[name] = got
		}
		if got, ran := b.results[name]; ran {
			inBwrap[name] = got
		}
	}
}

// compareViolation runs one test alone and wants it to end the sandbox, for the reason in the list.
func compareViolation(t *testing.T, module string, silk side, e difference) {
	t.Helper()
	r, err := silk(t.Context(), module, "-m", e.Test)
	if err != nil {
		t.Fatal(err)
	}
	if string(r.outcome.Kind) != violated || r.outcome.Rule != e.Rule || r.results[e.Test].kind != started {
		t.Errorf("%s: silk: %s; %s; the list says violated %q", e.Test, r.results.describe(e.Test), r.detail, e.Rule)
	}
}
