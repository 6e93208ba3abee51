package app

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
)

// keys calls f with the path and the value of each key of a section.
func keys(path string, section reflect.Value, f func(path string, value reflect.Value)) {
	for i := range section.NumField() {
		at := path + section.Type().Field(i).Tag.Get("yaml")
		if value := section.Field(i); value.Kind() == reflect.Struct {
			keys(at+".", value, f)
		} else {
			f(at, value)
		}
	}
}

// change gives a key another value.
func change(key reflect.Value) {
	switch key.Kind() {
	case reflect.Bool:
		key.SetBool(!key.Bool())
	case reflect.Int, reflect.Int64:
		key.SetInt(key.Int() + 1)
	case reflect.Float64:
		key.SetFloat(key.Float() + 1)
	case reflect.Slice:
		key.Set(reflect.MakeSlice(key.Type(), key.Len()+1, key.Len()+1))
	default:
		key.SetString("another")
	}
}

// A reload that changes a key builds a new pipeline, unless the key is applied to the one at hand or is of no concern to it.
func TestWhatBuildsANewPipeline(t *testing.T) {
	kept := []string{
		"admin.", "log.", "logs.", "tracing.", "limits.drain_delay", "limits.shutdown_grace",
		"routing.mode", "routing.policy", "bulk.mode", "admission.mode",
	}
	before := recipeOf(config.Default())
	cfg := config.Default()
	keys("", reflect.ValueOf(&cfg).Elem(), func(path string, key reflect.Value) {
		was := reflect.New(key.Type()).Elem()
		was.Set(key)
		change(key)
		require.Equal(t, matchesAny(path, kept), reflect.DeepEqual(before, recipeOf(cfg)), path)
		key.Set(was)
	})
}

// Another view of the cluster is made, and what was learned forgotten, if a key changes that has to do with it.
func TestWhatPollsTheClusterAnew(t *testing.T) {
	anew := []string{"upstream.", "cluster.", "routing.clients", "routing.zone.", "bulk.single_shard", "bulk.routing_size"}
	cfg := config.Default()
	before := needsOf(cfg)
	keys("", reflect.ValueOf(&cfg).Elem(), func(path string, key reflect.Value) {
		was := reflect.New(key.Type()).Elem()
		was.Set(key)
		change(key)
		require.Equal(t, !matchesAny(path, anew), reflect.DeepEqual(before, needsOf(cfg)), path)
		key.Set(was)
	})
	cfg.Bulk.RoutingSize = []config.RoutingSize{{Index: "one", Size: 2}}
	one := needsOf(cfg)
	cfg.Bulk.RoutingSize = append(cfg.Bulk.RoutingSize, config.RoutingSize{Index: "another", Size: 2})
	require.Equal(t, one, needsOf(cfg))
}

// matchesAny reports whether path is one of these, or in one that is a section.
func matchesAny(path string, these []string) bool {
	for _, one := range these {
		if path == one || strings.HasSuffix(one, ".") && strings.HasPrefix(path, one) {
			return true
		}
	}
	return false
}
