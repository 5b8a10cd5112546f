package postgres_test

import (
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/store/storetest"
)

func TestPostgres(t *testing.T) {
	t.Setenv(testenv.EnvStore, storetest.Database(t))
	storetest.Test(t, storetest.Open)
}
