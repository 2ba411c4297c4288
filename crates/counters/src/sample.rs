//! Samples of an instant vector, and why they are refused.

/// Labels and value of a sample; an absent label is empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Namespace of the scraped pod.
    pub namespace: &'a str,
    /// Name of the scraped pod.
    pub pod: &'a str,
    /// Short name of the actor, such as `crop-0`.
    pub actor: &'a str,
    /// The other actor: `namespace/application/actor`, or `_other`.
    pub peer: &'a str,
    /// The increase within the window.
    pub value: f64,
}

/// Why samples are refused: the label `reason` of `cairn_operator_counters_refused_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[derive(strum::IntoStaticStr, strum::Display, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum SampleRefusal {
    /// Not a number, infinite, negative, or above 2^40.
    Value,
    /// The pod is not one of an Instance.
    UnknownPod,
    /// The pod does not run this actor.
    Actor,
    /// The peer is malformed, or in another namespace.
    Peer,
    /// The pod reports more pairs than are kept; the sample is added to `_other`.
    Pairs,
    /// The answer is cut or has too many series; the whole window is without data.
    Truncated,
    /// There is no answer, or none with samples of this window; the whole window is without data.
    Unanswered,
}

/// Label value of pairs that are not listed.
pub(crate) const OTHER: &str = "_other";

/// Largest accepted value: 2^40.
const LARGEST: f64 = 1_099_511_627_776.0;

impl Sample<'_> {
    /// The value, or why it is refused.
    pub(crate) fn checked(&self) -> Result<f64, SampleRefusal> {
        // False for NaN too.
        if (0.0..=LARGEST).contains(&self.value) { Ok(self.value) } else { Err(SampleRefusal::Value) }
    }
}
