// Command opa-judge asks policies with the engine of OPA: opa-judge QUERY INPUT.json POLICY.rego...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/open-policy-agent/opa/v1/rego"
)

func main() {
	if err := judge(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// judge prints the value of a query as JSON. Policies are compiled as by `opa check --strict`.
func judge(query, path string, policies []string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := json.NewDecoder(file)
	decoder.UseNumber()
	var input any
	if err := decoder.Decode(&input); err != nil {
		return err
	}
	found, err := rego.New(
		rego.Query(query), rego.Load(policies, nil), rego.Strict(true), rego.Input(input),
	).Eval(context.Background())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found[0].Expressions[0].Value)
}
