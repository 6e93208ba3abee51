package simcluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
)

const adaptiveSetting = "cluster.routing.use_adaptive_replica_selection"

// withSetting sets a flat key in a scope, or removes it if the value is nil.
func (s *state) withSetting(scope, key string, value any) (*state, error) {
	next := s.change()
	next.Settings = maps.Clone(s.Settings) // what was published before stays as it is
	next.Settings[scope] = maps.Clone(s.Settings[scope])
	if value == nil {
		delete(next.Settings[scope], key)
	} else {
		next.Settings[scope][key] = fmt.Sprint(value)
	}
	if key != adaptiveSetting {
		return next, nil
	}
	next.Adaptive = next.AdaptiveDefault
	for _, scope := range []string{"persistent", "transient"} { // transient wins
		v, ok := next.Settings[scope][key]
		if !ok {
			continue
		}
		on, err := strconv.ParseBool(fmt.Sprint(v))
		if err != nil {
			return nil, fmt.Errorf("failed to parse value [%v] for setting [%s]", v, key)
		}
		next.Adaptive = on
	}
	return next, nil
}

// putSettings applies the body of PUT _cluster/settings, keys nested or flat.
func (c *Cluster) putSettings(body []byte) (reply, *apiError) {
	var scopes map[string]map[string]any
	if err := json.Unmarshal(body, &scopes); err != nil {
		return reply{}, parseError(err)
	}
	err := c.change(func(s *state) (*state, error) {
		for scope, values := range scopes {
			if scope != "transient" && scope != "persistent" {
				return nil, fmt.Errorf("unknown field [%s]", scope)
			}
			var err error
			if s, err = s.withSettings(scope, "", values); err != nil {
				return nil, err
			}
		}
		return s, nil
	})
	if err != nil {
		return reply{}, illegalArgument(err.Error())
	}
	return answer(map[string]any{
		"acknowledged": true,
		"transient":    orEmpty(scopes["transient"]), "persistent": orEmpty(scopes["persistent"]),
	}), nil
}

func (s *state) withSettings(scope, prefix string, values map[string]any) (*state, error) {
	for key, value := range values {
		var err error
		if nested, ok := value.(map[string]any); ok {
			s, err = s.withSettings(scope, prefix+key+".", nested)
		} else {
			s, err = s.withSetting(scope, prefix+key, value)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// settings answers GET _cluster/settings with flat keys, as flat_settings=true
// does.
func (c *Cluster) settings(defaults bool) reply {
	s := c.state.Load()
	out := map[string]any{"persistent": s.Settings["persistent"], "transient": s.Settings["transient"]}
	if defaults {
		out["defaults"] = map[string]any{adaptiveSetting: strconv.FormatBool(s.AdaptiveDefault)}
	}
	return answer(out)
}
