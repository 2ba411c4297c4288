//! Optional features of managers, which a program can query before use.

use std::fmt::Write as _;

/// An optional feature of a back-end. Every back-end supports what is not listed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Create Instances at run time.
    CreateInstances,
    /// Manage several Instances at once.
    SeveralInstances,
    /// Register a buffer of the program as a slot.
    Register,
    /// Bind memory to a NUMA domain.
    BindMemory,
    /// Copy to and from global slots after an exchange.
    GlobalCopies,
    /// Promote slots, so that Instances created later can reach them.
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
    /// Let a function suspend itself midway and resume it.
    Suspend,
    /// Resume a suspended state on another thread.
    ResumeAnywhere,
    /// Run a state on the caller's thread.
    Run,
}

impl Capability {
    /// All capabilities, in the order of the documentation.
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

    /// The label used in the documentation.
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

/// The documented table: one row per capability, one column per manager.
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
