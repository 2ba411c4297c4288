//! The list of constraints, and their syntax in a snapshot file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::file::constraint_fields::{FieldError, RawConstraint, camel_case, no_type};

/// Passes the list of constraints to a macro: description, name, module in `constraints`, and fields in the file.
///
/// In the file, types are named after their modules and fields as here, in camel case.
macro_rules! each_constraint {
    ($then:ident) => {
        $then! {
            /// On this unit only.
            Pin in pin {
                /// The actor.
                actor: String,
                /// The unit.
                unit: String,
                /// The reason, as a sentence.
                #[serde(skip_serializing_if = "Option::is_none")]
                reason: Option<String>,
            }
            /// On these only.
            Only in only {
                /// The actors.
                actors: Vec<String>,
                /// Where: exactly one of units, nodes, zones.
                #[serde(flatten)]
                places: Places,
                /// The reason, as a sentence.
                #[serde(skip_serializing_if = "Option::is_none")]
                reason: Option<String>,
            }
            /// Not on these.
            Never in never {
                /// The actors.
                actors: Vec<String>,
                /// Where: exactly one of units, nodes, zones.
                #[serde(flatten)]
                places: Places,
                /// Whether current placements there are exempt.
                #[serde(skip_serializing_if = "std::ops::Not::not")]
                except_current: bool,
                /// The reason, as a sentence.
                #[serde(skip_serializing_if = "Option::is_none")]
                reason: Option<String>,
            }
            /// Not on these, unless actors stay unplaced otherwise.
            Avoid in avoid {
                /// The actors.
                actors: Vec<String>,
                /// Where: exactly one of units, nodes, zones.
                #[serde(flatten)]
                places: Places,
                /// The reason, as a sentence.
                #[serde(skip_serializing_if = "Option::is_none")]
                reason: Option<String>,
            }
            /// Reserves a quantity of a unit's resource.
            Reserve in reserve {
                /// The unit.
                unit: String,
                /// The resource.
                resource: String,
                /// The quantity.
                quantity: u64,
            }
            /// All in different ones.
            Apart in apart {
                /// The topology level.
                on: Scope,
                /// The actors.
                actors: Vec<String>,
                /// The reason, as a sentence.
                #[serde(skip_serializing_if = "Option::is_none")]
                reason: Option<String>,
            }
            /// All in the same one.
            Together in together {
                /// The topology level.
                on: Scope,
                /// The actors.
                actors: Vec<String>,
                /// The reason, as a sentence.
                #[serde(skip_serializing_if = "Option::is_none")]
                reason: Option<String>,
            }
            /// The maximum power of every domain of a scope.
            PowerCap in power_cap {
                /// The scope.
                on: CapScope,
                /// Watts.
                max: u64,
                /// The reason, as a sentence.
                #[serde(skip_serializing_if = "Option::is_none")]
                reason: Option<String>,
            }
            /// The maximum number of some actors, or quantity of a resource that they require.
            Quota in quota {
                /// The actors.
                actors: Vec<String>,
                /// Counts only placements on units of this pool.
                #[serde(skip_serializing_if = "Option::is_none")]
                pool: Option<String>,
                /// Counts only placements on units of one of these pools.
                #[serde(skip_serializing_if = "Option::is_none")]
                pools: Option<Vec<String>>,
                /// Counts only placements in this NUMA domain, of any node.
                #[serde(skip_serializing_if = "Option::is_none")]
                numa: Option<String>,
                /// Counts only placements on these units, each with its amount; without it, each counts once.
                #[serde(skip_serializing_if = "Option::is_none")]
                units: Option<BTreeMap<String, u64>>,
                /// The resource that is counted, of unit and node together; without it, actors are counted.
                #[serde(skip_serializing_if = "Option::is_none")]
                resource: Option<String>,
                /// The maximum.
                max: u64,
                /// The reason, as a sentence.
                #[serde(skip_serializing_if = "Option::is_none")]
                reason: Option<String>,
            }
            /// The peers in the domain of an actor that arrives: exactly one of `max`, `skew` and `join`.
            Peers in peers {
                /// The actors that it binds, while they arrive: an actor that stays on its current unit is exempt.
                actors: Vec<String>,
                /// The actors that are counted.
                peers: Vec<String>,
                /// The domains; actors outside of them are neither bound nor counted.
                domains: Vec<Domain>,
                /// By actor: the kinds of units on which it is bound; an actor without an entry is bound on all.
                #[serde(skip_serializing_if = "Option::is_none")]
                actor_kinds: Option<BTreeMap<String, Vec<String>>>,
                /// By peer: the kinds of units on which it is counted; a peer without an entry is counted on all.
                #[serde(skip_serializing_if = "Option::is_none")]
                peer_kinds: Option<BTreeMap<String, Vec<String>>>,
                /// The maximum number of other peers in the domain.
                #[serde(skip_serializing_if = "Option::is_none")]
                max: Option<u64>,
                /// The maximum difference to the domain with the fewest peers.
                #[serde(skip_serializing_if = "Option::is_none")]
                skew: Option<u64>,
                /// Whether the domain needs a peer that does not arrive under the same constraint.
                #[serde(skip_serializing_if = "Option::is_none")]
                join: Option<Join>,
                /// The reason, as a sentence.
                #[serde(skip_serializing_if = "Option::is_none")]
                reason: Option<String>,
            }
            /// Costs its weight, in the criterion `policy`, if the actor is placed elsewhere.
            Prefer in prefer {
                /// The actor.
                actor: String,
                /// The unit.
                unit: String,
                /// The cost of being placed elsewhere.
                weight: u64,
            }
        }
    };
}

pub(crate) use each_constraint;

macro_rules! constraints {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident in $module:ident { $($(#[$about:meta])+ $field:ident: $type:ty,)+ }
    )+) => {
        /// A rule about the units of actors; binds placed actors only.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "RawConstraint")]
        #[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
        pub enum Constraint {
            $($(#[doc = $doc])+ $name { $($(#[$about])+ $field: $type,)+ },)+
        }

        impl TryFrom<RawConstraint> for Constraint {
            type Error = FieldError;

            fn try_from(mut raw: RawConstraint) -> Result<Self, FieldError> {
                let names = [$(camel_case(stringify!($module))),+];
                let constraint = match raw.kind.clone() {
                    $(kind if kind == camel_case(stringify!($module)) => {
                        Self::$name { $($field: Field::read(&mut raw, stringify!($field))?,)+ }
                    })+
                    other => return Err(no_type(&other, &names)),
                };
                raw.reject_unknown_fields().map(|()| constraint)
            }
        }

        impl Constraint {
            /// The first field of this name, and the name.
            fn field(&self, is_wanted: impl Fn(&str) -> bool) -> Option<(&'static str, &dyn Field)> {
                match self {
                    $(Self::$name { $($field),+ } => {
                        let fields: [(&'static str, &dyn Field); _] = [$((stringify!($field), $field)),+];
                        fields.into_iter().find(|(name, _)| is_wanted(name))
                    })+
                }
            }

            /// The same, mutably.
            fn field_mut(&mut self, is_wanted: impl Fn(&str) -> bool) -> Option<&mut dyn Field> {
                match self {
                    $(Self::$name { $($field),+ } => {
                        let fields: [(&'static str, &mut dyn Field); _] = [$((stringify!($field), $field)),+];
                        fields.into_iter().find(|(name, _)| is_wanted(name)).map(|(_, field)| field)
                    })+
                }
            }
        }
    };
}

each_constraint!(constraints);

impl Constraint {
    /// The actors that it names.
    pub fn actors(&self) -> &[String] {
        self.field(names_actors).map_or(&[], |(_, field)| field.names())
    }

    /// The list of the actors that it names, if it has a list.
    pub fn actors_mut(&mut self) -> Option<&mut Vec<String>> {
        self.field_mut(names_actors)?.names_mut()
    }

    /// Keeps only some of the actors that it binds or counts.
    pub fn retain_actors(&mut self, is_kept: impl Fn(&String) -> bool) {
        if let Self::Peers { peers, actor_kinds, peer_kinds, .. } = self {
            peers.retain(&is_kept);
            for kinds in [actor_kinds, peer_kinds].into_iter().flatten() {
                kinds.retain(|actor, _| is_kept(actor));
            }
        }
        if let Some(actors) = self.actors_mut() {
            actors.retain(is_kept);
        }
    }

    /// Whether it names a single actor rather than a list.
    pub(crate) fn is_of_one_actor(&self) -> bool {
        self.field(names_actors).is_some_and(|(name, _)| name == "actor")
    }

    /// The unit that it names.
    pub(crate) fn unit(&self) -> Option<&str> {
        self.field(|name| name == "unit").and_then(|(_, field)| field.text())
    }

    /// The places that it names.
    pub(crate) fn places(&self) -> Option<&Places> {
        self.field(|name| name == "places").and_then(|(_, field)| field.places())
    }

    /// Its reason, if given.
    pub fn reason(&self) -> Option<&str> {
        self.field(|name| name == "reason").and_then(|(_, field)| field.text())
    }
}

/// A set of places: units, nodes or zones, exactly one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Places {
    /// Units by name.
    Units(Vec<String>),
    /// Nodes by name.
    Nodes(Vec<String>),
    /// Zones by name.
    Zones(Vec<String>),
}

/// What an actor joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Join {
    /// A peer that is there.
    Peer,
    /// A peer that is there; without any peer in any domain, all actors share one domain.
    First,
}

/// A set of nodes, such as a rack, and the peers in it that are no actors of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Domain {
    /// The nodes by name; each is in one domain of a constraint at most.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// The number of other peers there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub others: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The topology level of `apart` and `together`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Scope {
    /// The same computing unit.
    Unit,
    /// The same NUMA domain of the same node.
    Numa,
    /// The same node.
    Node,
    /// The same zone.
    Zone,
}

/// The scope of a power cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum CapScope {
    /// Each node separately.
    Node,
    /// Each zone separately; a unit without a known zone is one of its own.
    Zone,
    /// All units together.
    All,
}

/// A field type.
trait Field {
    /// Reads it by name.
    fn read(raw: &mut RawConstraint, name: &str) -> Result<Self, FieldError>
    where
        Self: Sized;

    /// What it names.
    fn names(&self) -> &[String] {
        &[]
    }

    /// The list of what it names, if it is one.
    fn names_mut(&mut self) -> Option<&mut Vec<String>> {
        None
    }

    /// The text, if it is one and present.
    fn text(&self) -> Option<&str> {
        None
    }

    /// The places, if it is one.
    fn places(&self) -> Option<&Places> {
        None
    }
}

/// Field types that are required.
macro_rules! needed {
    ($($type:ty { $($more:tt)* })+) => {
        $(impl Field for $type {
            fn read(raw: &mut RawConstraint, name: &str) -> Result<Self, FieldError> {
                raw.take(name)?.ok_or_else(|| raw.missing_field(&format!("`{}`", camel_case(name))))
            }
            $($more)*
        })+
    };
}

needed! {
    u64 {}
    Scope {}
    CapScope {}
    Vec<Domain> {}
    String {
        fn names(&self) -> &[String] {
            std::slice::from_ref(self)
        }
        fn text(&self) -> Option<&str> {
            Some(self)
        }
    }
    Vec<String> {
        fn names(&self) -> &[String] {
            self
        }
        fn names_mut(&mut self) -> Option<&mut Vec<String>> {
            Some(self)
        }
    }
}

impl Field for bool {
    fn read(raw: &mut RawConstraint, name: &str) -> Result<Self, FieldError> {
        Ok(raw.take(name)?.unwrap_or(false))
    }
}

impl Field for Option<String> {
    fn read(raw: &mut RawConstraint, name: &str) -> Result<Self, FieldError> {
        raw.take(name)
    }

    fn text(&self) -> Option<&str> {
        self.as_deref()
    }
}

/// Field types that are optional and name nothing.
macro_rules! optional {
    ($($type:ty)+) => {
        $(impl Field for Option<$type> {
            fn read(raw: &mut RawConstraint, name: &str) -> Result<Self, FieldError> {
                raw.take(name)
            }
        })+
    };
}

optional! { u64 Join Vec<String> BTreeMap<String, u64> BTreeMap<String, Vec<String>> }

impl Field for Places {
    fn read(raw: &mut RawConstraint, _: &str) -> Result<Self, FieldError> {
        match (raw.take("units")?, raw.take("nodes")?, raw.take("zones")?) {
            (Some(units), None, None) => Ok(Self::Units(units)),
            (None, Some(nodes), None) => Ok(Self::Nodes(nodes)),
            (None, None, Some(zones)) => Ok(Self::Zones(zones)),
            _ => Err(raw.missing_field("`units`, `nodes` or `zones`, exactly one of them")),
        }
    }

    fn places(&self) -> Option<&Places> {
        Some(self)
    }
}

/// Whether a field of this name lists actors.
fn names_actors(field: &str) -> bool {
    matches!(field, "actor" | "actors")
}
