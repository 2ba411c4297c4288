//! Whether a node accepts new pods of a group.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crds::ActorApplication;
use k8s_openapi::api::core::v1::PodSpec;

use crate::Index;
use crate::constraints::admission::obstacles::obstacle;
use crate::constraints::devices::device_requests::{PodRequest, device_requests};
use crate::constraints::nodes::selectors::objection;
use crate::demand::admission::PodAdmission;
use crate::demand::requested::admission;
use crate::index::names::namespace_of;
use crate::units::unit::Unit;

/// A spec after admission.
pub(crate) struct Admitted {
    pub spec: Rc<PodSpec>,
    /// Why its pods start on no node.
    pub obstacle: Option<String>,
    /// Devices that the scheduler must allocate for its pods.
    pub devices: Vec<PodRequest>,
}

type ByPool = BTreeMap<String, Rc<Admitted>>;

/// Specs of an application's pods after admission, each computed once.
pub(crate) struct AdmittedSpecs<'a> {
    index: &'a Index,
    application: &'a ActorApplication,
    admission: PodAdmission,
    /// By group and kind.
    specs: RefCell<BTreeMap<(&'a str, &'a str), ByPool>>,
}

impl<'a> AdmittedSpecs<'a> {
    pub fn of(index: &'a Index, application: &'a ActorApplication) -> Self {
        let admission = admission(index, &namespace_of(application));
        Self { index, application, admission, specs: RefCell::default() }
    }

    /// The spec of a group's pods on a unit, if the group has an implementation for its kind.
    pub fn spec(&self, group: &str, unit: &Unit) -> Option<Rc<PodSpec>> {
        self.admitted(group, unit).map(|it| Rc::clone(&it.spec))
    }

    /// Why pods of a group, in the pool of this unit, start on no node.
    pub fn obstacle(&self, group: &str, unit: &Unit) -> Option<String> {
        self.admitted(group, unit)?.obstacle.clone()
    }

    /// The spec of a group's pods in the pool of this unit, and what follows from it.
    pub fn admitted(&self, group: &str, unit: &Unit) -> Option<Rc<Admitted>> {
        let group = self.application.spec.actors.iter().find(|it| it.name == group)?;
        let way = group.implementations.iter().find(|way| way.kind == unit.kind)?;
        let mut specs = self.specs.borrow_mut();
        let by_pool = specs.entry((&group.name, &way.kind)).or_default();
        if let Some(admitted) = by_pool.get(&unit.pool) {
            return Some(Rc::clone(admitted));
        }
        let pool = self.index.pool(&unit.pool).map(AsRef::as_ref);
        let spec = self.admission.spec(way.template.spec.as_ref(), pool);
        let namespace = namespace_of(self.application);
        let obstacle = obstacle(self.index, &namespace, &spec);
        let devices = device_requests(self.index, &namespace, &spec);
        let admitted = Rc::new(Admitted { spec: Rc::new(spec), obstacle, devices });
        by_pool.insert(unit.pool.clone(), Rc::clone(&admitted));
        Some(admitted)
    }

    /// Whether the unit's node rejects new pods of this group, or every node does.
    pub fn rejects(&self, group: &str, unit: &Unit) -> bool {
        let Some(node) = self.index.nodes.get(&unit.node) else { return false };
        let rejects = |it: Rc<Admitted>| it.obstacle.is_some() || objection(&it.spec, node).is_some();
        // The manifest may no longer have an implementation for the kind.
        let without_template = || {
            let pool = self.index.pool(&unit.pool).map(AsRef::as_ref);
            objection(&self.admission.spec(None, pool), node).is_some()
        };
        self.admitted(group, unit).map_or_else(without_template, rejects)
    }
}
