//! The constraints of a snapshot file, and which fields each of them has.

use serde::{Deserialize, Serialize};

/// A rule about where actors may be; binds placed actors only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", try_from = "RawConstraint")]
pub enum Constraint {
    /// All on different ones.
    Apart {
        /// Different what.
        on: Scope,
        /// The actors.
        actors: Vec<String>,
        /// Why, in plain words.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// All on the same one.
    Together {
        /// The same what.
        on: Scope,
        /// The actors.
        actors: Vec<String>,
        /// Why, in plain words.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// On this unit only.
    Pin {
        /// The actor.
        actor: String,
        /// The unit.
        unit: String,
        /// Why, in plain words.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// On these only.
    Only {
        /// The actors.
        actors: Vec<String>,
        /// Where: exactly one of units, nodes, zones.
        #[serde(flatten)]
        places: Places,
        /// Why, in plain words.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Not on these.
    Never {
        /// The actors.
        actors: Vec<String>,
        /// Where: exactly one of units, nodes, zones.
        #[serde(flatten)]
        places: Places,
        /// What runs there now may stay.
        #[serde(rename = "exceptCurrent", skip_serializing_if = "std::ops::Not::not")]
        except_current: bool,
        /// Why, in plain words.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Costs its weight, in the criterion `policy`, when the actor is placed elsewhere.
    Prefer {
        /// The actor.
        actor: String,
        /// The unit.
        unit: String,
        /// What it costs to be elsewhere.
        weight: u64,
    },
    /// Keeps so much of a unit's resource free.
    Reserve {
        /// The unit.
        unit: String,
        /// The resource.
        resource: String,
        /// How much stays free.
        quantity: u64,
    },
    /// At most so many watts, in every place of a scope.
    PowerCap {
        /// Which places.
        on: CapScope,
        /// Watts.
        max: u64,
        /// Why, in plain words.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl Constraint {
    /// The actors that it names.
    pub fn actors(&self) -> &[String] {
        match self {
            Self::Apart { actors, .. }
            | Self::Together { actors, .. }
            | Self::Only { actors, .. }
            | Self::Never { actors, .. } => actors,
            Self::Pin { actor, .. } | Self::Prefer { actor, .. } => std::slice::from_ref(actor),
            Self::Reserve { .. } | Self::PowerCap { .. } => &[],
        }
    }

    /// Why it is there, in plain words, where it says so.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Apart { reason, .. }
            | Self::Together { reason, .. }
            | Self::Pin { reason, .. }
            | Self::Only { reason, .. }
            | Self::Never { reason, .. }
            | Self::PowerCap { reason, .. } => reason.as_deref(),
            Self::Prefer { .. } | Self::Reserve { .. } => None,
        }
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

/// How near is near: the scope of `apart` and `together`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::Display,
)]
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

/// What a cap on power is about.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::Display,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum CapScope {
    /// Each node by itself.
    Node,
    /// Each zone by itself; a unit without a known zone is one of its own.
    Zone,
    /// All units together.
    All,
}

/// What any constraint may be `on`.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
enum Anywhere {
    Unit,
    Numa,
    Node,
    Zone,
    All,
}

impl Anywhere {
    /// One that actors can share.
    fn scope(self) -> Result<Scope, String> {
        match self {
            Self::Unit => Ok(Scope::Unit),
            Self::Numa => Ok(Scope::Numa),
            Self::Node => Ok(Scope::Node),
            Self::Zone => Ok(Scope::Zone),
            Self::All => {
                Err("`on` is `all`, which goes with `powerCap` alone; use unit, numa, node or zone".into())
            }
        }
    }

    /// One that power is counted over.
    fn cap_scope(self) -> Result<CapScope, String> {
        match self {
            Self::Node => Ok(CapScope::Node),
            Self::Zone => Ok(CapScope::Zone),
            Self::All => Ok(CapScope::All),
            other => Err(format!("`on` is `{other}`, where no power is counted; use node, zone or all")),
        }
    }
}

/// Every field that some constraint has: which of them belong together is checked in one place.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct RawConstraint {
    #[serde(rename = "type")]
    kind: String,
    on: Option<Anywhere>,
    actors: Option<Vec<String>>,
    actor: Option<String>,
    unit: Option<String>,
    units: Option<Vec<String>>,
    nodes: Option<Vec<String>>,
    zones: Option<Vec<String>>,
    except_current: Option<bool>,
    weight: Option<u64>,
    resource: Option<String>,
    quantity: Option<u64>,
    reason: Option<String>,
    max: Option<u64>,
}

impl TryFrom<RawConstraint> for Constraint {
    type Error = String;

    fn try_from(mut raw: RawConstraint) -> Result<Self, String> {
        let kind = std::mem::take(&mut raw.kind);
        let need = |field: &str| format!("a constraint of type `{kind}` needs `{field}`");
        let reason = raw.reason.take();
        let constraint = match kind.as_str() {
            "apart" | "together" => {
                let on = raw.on.take().ok_or_else(|| need("on"))?.scope()?;
                let actors = raw.actors.take().ok_or_else(|| need("actors"))?;
                match kind.as_str() {
                    "apart" => Constraint::Apart { on, actors, reason },
                    _ => Constraint::Together { on, actors, reason },
                }
            }
            "pin" => Constraint::Pin {
                actor: raw.actor.take().ok_or_else(|| need("actor"))?,
                unit: raw.unit.take().ok_or_else(|| need("unit"))?,
                reason,
            },
            "only" | "never" => {
                let actors = raw.actors.take().ok_or_else(|| need("actors"))?;
                let places = match (raw.units.take(), raw.nodes.take(), raw.zones.take()) {
                    (Some(units), None, None) => Places::Units(units),
                    (None, Some(nodes), None) => Places::Nodes(nodes),
                    (None, None, Some(zones)) => Places::Zones(zones),
                    _ => return Err(need("units`, `nodes` or `zones") + ", exactly one of them"),
                };
                match kind.as_str() {
                    "only" => Constraint::Only { actors, places, reason },
                    _ => Constraint::Never {
                        actors,
                        places,
                        except_current: raw.except_current.take().unwrap_or(false),
                        reason,
                    },
                }
            }
            "prefer" => Constraint::Prefer {
                actor: raw.actor.take().ok_or_else(|| need("actor"))?,
                unit: raw.unit.take().ok_or_else(|| need("unit"))?,
                weight: raw.weight.take().ok_or_else(|| need("weight"))?,
            },
            "reserve" => Constraint::Reserve {
                unit: raw.unit.take().ok_or_else(|| need("unit"))?,
                resource: raw.resource.take().ok_or_else(|| need("resource"))?,
                quantity: raw.quantity.take().ok_or_else(|| need("quantity"))?,
            },
            "powerCap" => Constraint::PowerCap {
                on: raw.on.take().ok_or_else(|| need("on"))?.cap_scope()?,
                max: raw.max.take().ok_or_else(|| need("max"))?,
                reason,
            },
            "" => return Err("a constraint needs `type`".into()),
            other => {
                return Err(format!(
                    "`{other}` is no type of constraint; use one of apart, together, pin, only, never, prefer, reserve, powerCap"
                ));
            }
        };
        match raw.left_over() {
            Some(field) => Err(format!("a constraint of type `{kind}` has no field `{field}`; remove it")),
            None => Ok(constraint),
        }
    }
}

impl RawConstraint {
    /// The name of a field that was given but not taken.
    fn left_over(&self) -> Option<&'static str> {
        let given = [
            ("on", self.on.is_some()),
            ("actors", self.actors.is_some()),
            ("actor", self.actor.is_some()),
            ("unit", self.unit.is_some()),
            ("units", self.units.is_some()),
            ("nodes", self.nodes.is_some()),
            ("zones", self.zones.is_some()),
            ("exceptCurrent", self.except_current.is_some()),
            ("weight", self.weight.is_some()),
            ("resource", self.resource.is_some()),
            ("quantity", self.quantity.is_some()),
            ("max", self.max.is_some()),
        ];
        given.into_iter().find_map(|(name, given)| given.then_some(name))
    }
}
