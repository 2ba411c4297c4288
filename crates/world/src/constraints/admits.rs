//! Whether a node accepts new pods of a group.

use crds::ActorApplication;
use k8s_openapi::api::core::v1::PodSpec;

use crate::Index;
use crate::constraints::selectors::objection;
use crate::units::unit::Unit;

/// Whether the unit's node rejects new pods of this group, by the templates of `application`.
pub(crate) fn rejects_group(index: &Index, application: &ActorApplication, group: &str, unit: &Unit) -> bool {
    let group = application.spec.actors.iter().find(|it| it.name == group);
    let mut ways = group.into_iter().flat_map(|group| &group.implementations);
    let template = ways.find(|way| way.kind == unit.kind).and_then(|way| way.template.spec.as_ref());
    let defaults = index.pool(&unit.pool).and_then(|pool| pool.spec.pod_defaults.as_ref());
    let more = defaults.map(|defaults| defaults.tolerations.as_slice()).unwrap_or_default();
    let node = index.nodes.get(&unit.node);
    node.is_some_and(|node| objection(template.unwrap_or(&PodSpec::default()), more, node).is_some())
}
