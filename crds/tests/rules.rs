//! Every validation rule rejects its bad example with the expected message and accepts its good one.

mod cases;
mod schema;

use std::collections::BTreeSet;
use std::path::Path;

use kube_cel::{CompiledSchema, Validator, compile_schema};
use serde_json::Value;

use cases::{Case, Examples, change};

/// The schema of a kind with its compiled CEL rules.
struct Kind {
    schema: Value,
    rules: CompiledSchema,
    validator: Validator,
}

impl Kind {
    fn named(name: &str) -> Self {
        let definition =
            crds::all().into_iter().find(|kind| kind.spec.names.singular.as_deref() == Some(name));
        let definition = definition.unwrap_or_else(|| panic!("tests/rules/{name}.yaml: no such kind"));
        let version = definition.spec.versions[0].schema.clone().expect("a schema");
        let schema = serde_json::to_value(version.open_api_v3_schema.expect("a schema")).expect("it is JSON");
        Self { rules: compile_schema(&schema), schema, validator: Validator::new() }
    }

    /// Validates like the API server: the schema first, then the CEL rules.
    ///
    /// Returns field, message and rule of each error; the rule is empty for schema errors.
    fn errors(&self, new: &Value, old: Option<&Value>) -> Vec<[String; 3]> {
        let new = kube_cel::apply_defaults(&self.schema, new);
        let old = old.map(|old| kube_cel::apply_defaults(&self.schema, old));
        let found = schema::violations(&self.schema, &new);
        if !found.is_empty() {
            return found.into_iter().map(|(field, message)| [field, message, String::new()]).collect();
        }
        let errors = self.validator.validate_compiled(&self.rules, &new, old.as_ref()).err();
        errors.into_iter().flatten().map(|error| [error.field_path, error.message, error.rule]).collect()
    }
}

fn examples() -> Vec<(String, Examples)> {
    cases::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules")).into_iter().collect()
}

fn before(base: &Value, case: &Case) -> Option<Value> {
    case.old.as_ref().map(|changes| change(base, changes))
}

#[test]
fn rejected_examples_fail_with_their_message() {
    let mut wrong = Vec::new();
    for (kind, examples) in examples() {
        let checked = Kind::named(&kind);
        for case in &examples.cases {
            let old = before(&examples.base, case);
            let found = checked.errors(&change(&examples.base, &case.rejected), old.as_ref());
            let found: Vec<_> =
                found.iter().map(|[field, message, _]| (field.as_str(), message.as_str())).collect();
            if found != [(case.field.as_str(), case.message.as_str())] {
                wrong.push(format!("{kind}, {}:\n  {found:#?}", case.rule));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn accepted_examples_are_valid() {
    for (kind, examples) in examples() {
        let checked = Kind::named(&kind);
        assert_eq!(checked.errors(&examples.base, None), [[""; 3]; 0], "{kind}: base");
        for case in &examples.cases {
            let old = before(&examples.base, case);
            let found = checked.errors(&change(&examples.base, &case.accepted), old.as_ref());
            assert_eq!(found, [[""; 3]; 0], "{kind}, {}", case.rule);
        }
    }
}

#[test]
fn largest_application_is_within_the_cel_budget() {
    let (kind, examples) =
        examples().into_iter().find(|(kind, _)| kind == "actorapplication").expect("its file");
    assert_eq!(Kind::named(&kind).errors(&cases::largest_application(&examples.base), None), [[""; 3]; 0]);
}

#[test]
fn every_rule_has_an_example() {
    let (mut rules, mut covered, mut rejected) = (BTreeSet::new(), BTreeSet::new(), 0);
    for (kind, examples) in examples() {
        let checked = Kind::named(&kind);
        collect_rules(&kind, &checked.schema, &mut rules);
        for case in &examples.cases {
            let old = before(&examples.base, case);
            let found = checked.errors(&change(&examples.base, &case.rejected), old.as_ref());
            covered.extend(found.into_iter().map(|[_, _, rule]| (kind.clone(), rule)));
            rejected += 1;
        }
    }
    let missing: Vec<_> = rules.difference(&covered).collect();
    assert!(missing.is_empty(), "rules without an example in tests/rules/: {missing:#?}");
    assert_eq!(examples().len(), crds::all().len(), "one file of examples for each kind");
    assert!(rejected >= 30, "only {rejected} rejected manifests");
}

/// Collects the CEL rules of a schema.
fn collect_rules(kind: &str, schema: &Value, rules: &mut BTreeSet<(String, String)>) {
    match schema {
        Value::Object(keywords) => {
            for rule in
                keywords.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten()
            {
                rules.insert((kind.to_owned(), rule["rule"].as_str().unwrap_or_default().to_owned()));
            }
            keywords.values().for_each(|inner| collect_rules(kind, inner, rules));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect_rules(kind, inner, rules)),
        _ => {}
    }
}
