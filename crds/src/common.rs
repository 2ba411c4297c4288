//! Shared by the kinds: validation rules for names and for numbers written as text, conditions, quantities.

use kube::core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};

pub use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The API group of every kind.
pub const GROUP: &str = "cairn.dev";
/// The API version of every kind.
pub const VERSION: &str = "v1alpha1";

/// A DNS label (RFC 1123). The length is bounded by the field's own `maxLength`.
pub(crate) fn dns_label() -> Rule {
    Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message(
        "must be a DNS label: lower-case letters, digits and '-', starting and ending with a letter or digit",
    )
}

/// A DNS subdomain (RFC 1123): the name of a Kubernetes object.
pub(crate) fn object_name() -> Rule {
    Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message(
        "must be a DNS subdomain: lower-case letters, digits, '-' and '.', starting and ending with a letter or digit",
    )
}

/// Messages per time: `30/s`, `0.5/m`, `100/h`.
pub(crate) fn rate() -> Rule {
    Rule::new("self.matches('^[0-9]{1,9}([.][0-9]{1,6})?/(s|m|h)$')")
        .message("must be a rate: a number, '/' and a unit s, m or h, for example 30/s or 0.5/m")
}

/// A positive duration: `20ms`, `35us`, `1.5s`.
pub(crate) fn duration() -> Rule {
    Rule::new("self.matches('^[0-9]{1,9}([.][0-9]{1,6})?(us|ms|s)$') && self.matches('[1-9]')")
        .message("must be a positive duration: a number and a unit us, ms or s, for example 20ms or 1.5s")
}

/// A positive rational: `1`, `0.5`, `3/2`.
pub(crate) fn positive_rational() -> Rule {
    Rule::new(format!("{RATIONAL} && self.matches('^[0.]*[1-9]')"))
        .message("must be a positive number, for example \"1\", \"0.5\" or \"3/2\"")
}

/// A rational above zero and at most one: `0.9`, `1`, `9/10`.
pub(crate) fn share() -> Rule {
    Rule::new(format!(
        "{RATIONAL} && self.matches('^[0.]*[1-9]') && (self.contains('/') \
         ? int(self.split('/')[0]) <= int(self.split('/')[1]) : double(self) <= 1.0)"
    ))
    .message("must be greater than 0 and at most 1, for example \"0.9\" or \"9/10\"")
}

/// A decimal number, or a quotient with a non-zero denominator.
const RATIONAL: &str = "self.matches('^([0-9]{1,6}([.][0-9]{1,6})?|[0-9]{1,6}/0*[1-9][0-9]{0,5})$')";

/// A byte quantity: `64Mi`, `32Ki`, `0`.
///
/// A pattern, not a CEL rule: CEL ignores the `maxLength` of an int-or-string, so a rule would exceed the cost limit.
pub(crate) fn byte_quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "minimum": 0,
        // A null is pruned and becomes the default. Without this field kube would set `nullable: true`.
        "nullable": false,
        "pattern": "^[0-9]{1,15}([.][0-9]{1,3})?(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$",
    })
}

/// Zero bytes: the default of every size.
pub(crate) fn no_bytes() -> Quantity {
    Quantity("0".to_owned())
}

pub(crate) fn one() -> i32 {
    1
}

/// Whether a flag has its default and is not serialized.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}
