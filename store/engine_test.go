package store_test

import (
	"testing"

	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

func TestSQLite(t *testing.T) { storetest.Test(t, store.Open) }
