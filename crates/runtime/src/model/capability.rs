//! What a manager can do, so that a program can ask before it tries.

use std::fmt::Write as _;

/// Something that not every back-end can do. Whatever is not listed, every one can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Create Instances while running.
    CreateInstances,
    /// Hold several Instances at once.
    SeveralInstances,
    /// Take over a buffer of the program.
    Register,
    /// Place memory in a NUMA domain of its own.
    BindMemory,
    /// Copy to and from global slots, after an exchange.
    GlobalCopies,
    /// Make slots reachable for Instances that come later.
    Promote,
    /// Lock a global slot.
    Lock,
    /// Copy between host and device.
    DeviceCopies,
    /// Run ordinary functions.
    Functions,
    /// Run asynchronous functions.
    AsyncFunctions,
    /// Run kernels.
    Kernels,
    /// Let a function suspend in its middle, and resume it.
    Suspend,
    /// Go on with a suspended state on another thread than before.
    ResumeAnywhere,
    /// Run a state on the caller's thread.
    Run,
}

impl Capability {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 14] = [
        Self::CreateInstances,
        Self::SeveralInstances,
        Self::Register,
        Self::BindMemory,
        Self::GlobalCopies,
        Self::Promote,
        Self::Lock,
        Self::DeviceCopies,
        Self::Functions,
        Self::AsyncFunctions,
        Self::Kernels,
        Self::Suspend,
        Self::ResumeAnywhere,
        Self::Run,
    ];

    /// What it is, in the documentation's words.
    pub fn words(self) -> &'static str {
        match self {
            Self::CreateInstances => "create Instances",
            Self::SeveralInstances => "several Instances",
            Self::Register => "register a buffer",
            Self::BindMemory => "bind to a NUMA domain",
            Self::GlobalCopies => "global copies",
            Self::Promote => "promote",
            Self::Lock => "lock",
            Self::DeviceCopies => "host ↔ device",
            Self::Functions => "functions",
            Self::AsyncFunctions => "asynchronous functions",
            Self::Kernels => "kernels",
            Self::Suspend => "suspend",
            Self::ResumeAnywhere => "resume on any thread",
            Self::Run => "run on the caller's thread",
        }
    }
}

/// The documented table: a line for each capability, a column for each manager and what it says of itself.
pub fn table(managers: &[(&str, &dyn Fn(Capability) -> bool)]) -> String {
    let mut text = String::from("| capability |");
    for (name, _) in managers {
        let _ = write!(text, " {name} |");
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(managers.len()));
    text.push('\n');
    for capability in Capability::ALL {
        let _ = write!(text, "| {} |", capability.words());
        for (_, supports) in managers {
            text.push_str(if supports(capability) { " yes |" } else { " |" });
        }
        text.push('\n');
    }
    text
}
