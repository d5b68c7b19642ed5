// Judge the vsphere-clone source of a Packer template by the plugin's own configuration.
//
// It reads one HCL file, takes the variables' defaults and what is given as NAME=VALUE, decodes the source's body by
// the plugin's HCL2Spec and lets its Prepare look at it. Of the rest it says what it found, one line each.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/packer-plugin-vsphere/builder/vsphere/clone"
	"github.com/zclconf/go-cty/cty"
)

var top = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
	{Type: "packer"},
	{Type: "variable", LabelNames: []string{"name"}},
	{Type: "source", LabelNames: []string{"type", "name"}},
	{Type: "build"},
}}

func main() {
	file, diags := hclparse.NewParser().ParseHCLFile(os.Args[1])
	end(diags)
	content, diags := file.Body.Content(top)
	end(diags)
	values := map[string]cty.Value{}
	for _, block := range content.Blocks.OfType("variable") {
		attributes, diags := block.Body.JustAttributes()
		end(diags)
		for _, key := range []string{"default"} {
			if attribute, ok := attributes[key]; ok {
				value, diags := attribute.Expr.Value(nil)
				end(diags)
				values[block.Labels[0]] = value
			}
		}
	}
	for _, given := range os.Args[2:] {
		name, value, _ := strings.Cut(given, "=")
		values[name] = cty.StringVal(value)
	}
	context := &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(values)}}
	for _, block := range content.Blocks.OfType("source") {
		if block.Labels[0] != "vsphere-clone" {
			fail("a source of another builder: " + block.Labels[0])
		}
		var config clone.Config
		spec := hcldec.ObjectSpec(config.FlatMapstructure().HCL2Spec())
		decoded, diags := hcldec.Decode(block.Body, spec, context)
		end(diags)
		warnings, err := config.Prepare(decoded)
		if err != nil {
			fail(err.Error())
		}
		for _, warning := range warnings {
			fmt.Println("warning:", warning)
		}
		fmt.Println("source:", block.Labels[1], "firmware:", config.Firmware, "to template:", config.ConvertToTemplate)
	}
}

func end(diags hcl.Diagnostics) {
	if diags.HasErrors() {
		fail(diags.Error())
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
