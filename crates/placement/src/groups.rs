//! Channels between whole groups: each of one to each of the other, written out as pairs.

use std::collections::BTreeMap;

use crate::SnapshotError;
use crate::error::fits;
use crate::file::{Drag, GroupMessage, Message, SnapshotFile};

/// The most pairs that channels between groups may come to.
pub const MOST_PAIRS: usize = 1_000_000;

/// Writes out every channel between groups, behind what is listed.
///
/// # Errors
/// Groups that nobody is of, and more than [`MOST_PAIRS`].
pub(crate) fn write_out(file: &mut SnapshotFile) -> Result<(), SnapshotError> {
    let channels = std::mem::take(&mut file.group_messages);
    if channels.is_empty() {
        return Ok(());
    }
    let mut members: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for actor in &file.actors {
        if let (Some(group), Some((application, _))) = (&actor.group, actor.id.rsplit_once('/')) {
            members.entry(format!("{application}/{group}")).or_default().push(&actor.id);
        }
    }
    let (mut messages, mut drags) = (Vec::new(), Vec::new());
    let mut pairs = 0;
    for (position, channel) in channels.iter().enumerate() {
        fits(&|| format!("groupMessages[{position}].count"), channel.count)?;
        fits(&|| format!("groupMessages[{position}].drag"), channel.drag)?;
        let of = |field: &str, group: &String| {
            members.get(group).ok_or_else(|| {
                let problem = format!("no actor is of `{group}`; it is written namespace/application/group");
                SnapshotError::new(format!("groupMessages[{position}].{field}"), problem)
            })
        };
        let (from, to) = (of("from", &channel.from)?, of("to", &channel.to)?);
        pairs += from.len() * to.len();
        if pairs > MOST_PAIRS {
            let problem =
                format!("{pairs} pairs with those before it; at most {MOST_PAIRS} can be planned at once");
            return Err(SnapshotError::new(format!("groupMessages[{position}]"), problem));
        }
        each(channel, from, to, &mut messages, &mut drags);
    }
    file.written_out[0] += messages.len();
    file.written_out[1] += drags.len();
    file.messages.extend(messages);
    file.annoyance.extend(drags);
    Ok(())
}

/// The pairs of one channel. An actor sends nothing to itself, and two annoy each other once.
fn each(
    channel: &GroupMessage,
    from: &[&str],
    to: &[&str],
    messages: &mut Vec<Message>,
    drags: &mut Vec<Drag>,
) {
    let is_own = channel.from == channel.to;
    for &a in from {
        for &b in to.iter().filter(|b| **b != a) {
            let own = |id: &str| id.to_owned();
            messages.push(Message { from: own(a), to: own(b), count: channel.count });
            if channel.drag > 0 && (!is_own || a < b) {
                drags.push(Drag { a: own(a), b: own(b), drag: channel.drag });
            }
        }
    }
}
