//! Names of objects.

use kube::ResourceExt;

/// Namespace and name.
pub(crate) type Name = (String, String);

/// Namespace of an object; a missing one means `default`.
pub(crate) fn namespace_of(object: &impl ResourceExt) -> String {
    object.namespace().unwrap_or_else(|| "default".to_owned())
}
