package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// A software bill of materials in CycloneDX 1.6, of what the linker put into the binary.
// https://cyclonedx.org/docs/1.6/json/
type (
	billOfMaterials struct {
		Format       string       `json:"bomFormat"`
		SpecVersion  string       `json:"specVersion"`
		Version      int          `json:"version"`
		Metadata     billMetadata `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	billMetadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		PURL       string     `json:"purl"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// bill returns the bill of materials of a binary: each module in it, with the checksum of
// go.sum, and the standard library.
func (b builder) bill(binary []byte, platform string) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("read the modules of the binary: %w", err)
	}
	program := newComponent("application", info.Main.Path, b.version)
	program.Hashes = []hash{{Algorithm: "SHA-256", Content: fmt.Sprintf("%x", sha256.Sum256(binary))}}
	program.Properties = []property{{"commit", b.commit}, {"platform", platform}}
	// Databases of vulnerabilities know the standard library by this name.
	parts := []component{newComponent("library", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		parts = append(parts, moduleComponent(module))
	}
	needs := dependency{Ref: program.Ref}
	for _, part := range parts {
		needs.DependsOn = append(needs.DependsOn, part.Ref)
	}
	text, err := json.MarshalIndent(billOfMaterials{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata:   billMetadata{Timestamp: b.time.Format(time.RFC3339), Component: program},
		Components: parts, Dependencies: []dependency{needs},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the bill of materials: %w", err)
	}
	return append(text, '\n'), nil
}

func moduleComponent(module *debug.Module) component {
	if module.Replace != nil {
		module = module.Replace
	}
	c := newComponent("library", module.Path, module.Version)
	if module.Sum != "" {
		c.Properties = []property{{"go.sum", module.Sum}}
	}
	return c
}

// newComponent names a module as https://github.com/package-url/purl-spec does.
func newComponent(kind, path, version string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}
