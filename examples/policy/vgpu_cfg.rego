# Rules of a site for plans of vgpu-cfg, for OPA and conftest. Input: plan.json, or the output of
# `vgpu-cfg plan --output json`. The keys: docs/reference/plan-json.md.
package main

# The output of `--output json` has the plan under a key.
plan := object.get(input, "plan", input)

# Reject a document that this policy cannot judge: a later format, or no plan.
deny contains message if {
	not plan.format == 2
	message := "not a plan.json of format 2: update the policy before you apply this plan"
}

# Reject a plan that vgpu-cfg itself rejects.
deny contains message if {
	some found in plan.diagnostics
	found.severity == "error"
	message := sprintf("%s: %s %s: %s", [found.code, found.subject.kind, found.subject.name, found.message])
}

# Reject effects on VMs of others. An unknown effect, of a later release, counts as an outage.
harmless := {"vMotion", "moved while powered off", "option changed"}

deny contains message if {
	some one in plan.disturbed
	one.subject.kind == "vm"
	not one.is_own
	not one.experience in harmless
	message := sprintf("%s is not a VM of this plan, and is affected by \"%s\": %s", [
		one.subject.name,
		one.change,
		one.experience,
	])
}

# Require the spare capacity of the site, even where `checks:` in the plan file makes its finding a warning.
required := {"VG163"}

deny contains message if {
	some found in plan.diagnostics
	found.code in required
	found.severity != "error"
	message := sprintf("%s: %s %s: %s", [found.code, found.subject.kind, found.subject.name, found.message])
}
