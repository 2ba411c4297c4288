//! Functions in the formats that compute managers run, and a registry by name.

use std::{
    any::{Any, TypeId, type_name},
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
};

use super::error::Error;

/// An argument or a result of any type.
pub type Value = Box<dyn Any + Send>;

/// The interface between a running function and its executor.
pub trait Context {
    /// Suspends until resumed.
    fn suspend(&mut self);
    /// Suspends if [`ComputeManager::suspend`] was called.
    fn checkpoint(&mut self);
}

/// A function that can suspend through its [`Context`].
pub type Function = Arc<dyn Fn(&mut dyn Context, Value) -> Value + Send + Sync>;
/// A function that never suspends.
pub type UninterruptedFunction = Arc<dyn Fn(Value) -> Value + Send + Sync>;
/// A future that a compute manager polls.
pub type Pending = Pin<Box<dyn Future<Output = Value> + Send>>;
/// A function that returns a future.
pub type AsyncFunction = Arc<dyn Fn(Value) -> Pending + Send + Sync>;

/// A device function as source code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The source code of the program.
    pub source: String,
    /// The function's name in the program.
    pub name: String,
    /// Number of work items in each dimension.
    pub range: [usize; 3],
}

/// The format of a function.
#[derive(Clone)]
pub enum Format {
    /// An ordinary function.
    Function(Function),
    /// A function that never suspends.
    Uninterrupted(UninterruptedFunction),
    /// An asynchronous function.
    Async(AsyncFunction),
    /// A device kernel.
    Kernel(Arc<Kernel>),
}

/// The static description of a function (hicr.txt 3.1.5): it can be copied and sent by name.
#[derive(Clone)]
pub struct ExecutionUnit {
    name: Option<Arc<str>>,
    format: Format,
    argument: Option<(TypeId, &'static str)>,
}

impl ExecutionUnit {
    /// An ordinary function.
    pub fn function<A: Send + 'static, R: Send + 'static>(
        function: impl Fn(&mut dyn Context, A) -> R + Send + Sync + 'static,
    ) -> Self {
        let function = move |context: &mut dyn Context, argument: Value| -> Value {
            let argument = argument.downcast().expect("checked when the execution state was made");
            Box::new(function(context, *argument))
        };
        Self::of::<A>(Format::Function(Arc::new(function)))
    }

    /// A function that never suspends. It has no [`Context`], so every compute manager of functions runs it on the thread
    /// that calls [`ComputeManager::run`], without a thread or a stack of its own.
    ///
    /// [`ComputeManager::run`]: crate::ComputeManager::run
    pub fn uninterrupted<A: Send + 'static, R: Send + 'static>(
        function: impl Fn(A) -> R + Send + Sync + 'static,
    ) -> Self {
        let function = move |argument: Value| -> Value {
            let argument = argument.downcast().expect("checked when the execution state was made");
            Box::new(function(*argument))
        };
        Self::of::<A>(Format::Uninterrupted(Arc::new(function)))
    }

    /// An asynchronous function.
    pub fn asynchronous<A: Send + 'static, F>(function: impl Fn(A) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let function = move |argument: Value| -> Pending {
            let argument = argument.downcast().expect("checked when the execution state was made");
            let future = function(*argument);
            Box::pin(async move { Box::new(future.await) as Value })
        };
        Self::of::<A>(Format::Async(Arc::new(function)))
    }

    /// A kernel; the back-end defines its arguments.
    pub fn kernel(kernel: Kernel) -> Self {
        Self { name: None, format: Format::Kernel(Arc::new(kernel)), argument: None }
    }

    fn of<A: 'static>(format: Format) -> Self {
        Self { name: None, format, argument: Some((TypeId::of::<A>(), type_name::<A>())) }
    }

    /// The same unit with a name, by which it can be sent.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The name, or a placeholder.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("an unnamed function")
    }

    /// The format.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Fails if the function expects an argument of another type.
    pub fn check(&self, argument: &Value) -> Result<(), Error> {
        match self.argument {
            Some((type_, name)) if type_ != (**argument).type_id() => {
                let why = format!("{} takes an argument of type {name}, but got another type", self.name());
                Err(Error::misuse("create an execution state", why))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for ExecutionUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Functions by name. Both ends register the same functions and send only names.
#[derive(Clone, Debug, Default)]
pub struct Registry(BTreeMap<String, ExecutionUnit>);

impl Registry {
    /// Registers a unit under its name.
    pub fn register(&mut self, unit: ExecutionUnit) -> Result<(), Error> {
        let name = unit.name.as_deref().ok_or_else(Self::nameless)?.to_owned();
        if self.0.contains_key(&name) {
            return Err(Error::misuse(
                "register a function",
                format!("{name:?} is already registered; choose another name"),
            ));
        }
        self.0.insert(name, unit);
        Ok(())
    }

    fn nameless() -> Error {
        Error::misuse(
            "send a function",
            "it has no name; give it one with `named`, and register it at both ends",
        )
    }

    /// Serializes a reference to the unit.
    pub fn to_bytes(&self, unit: &ExecutionUnit) -> Result<Vec<u8>, Error> {
        unit.name.as_deref().map(|name| name.as_bytes().to_vec()).ok_or_else(Self::nameless)
    }

    /// Resolves a serialized reference.
    pub fn from_bytes(&self, bytes: &[u8]) -> Result<ExecutionUnit, Error> {
        let name = String::from_utf8_lossy(bytes);
        self.0.get(&*name).cloned().ok_or_else(|| {
            Error::misuse("receive a function", format!("{name:?} is not registered here; register it first"))
        })
    }
}
