//! Functions, in the forms that compute managers take, and by name.

use std::{
    any::{Any, TypeId, type_name},
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
};

use super::error::Error;

/// An argument or a result, of whatever type the function has.
pub type Value = Box<dyn Any + Send>;

/// What a running function can ask of what runs it.
pub trait Context {
    /// Stops here, until it is resumed.
    fn suspend(&mut self);
    /// Stops here if somebody asked for it by [`ComputeManager::suspend`].
    fn checkpoint(&mut self);
}

/// A function in the form that a compute manager takes.
pub type Function = Arc<dyn Fn(&mut dyn Context, Value) -> Value + Send + Sync>;
/// A function that asks nothing of what runs it.
pub type UninterruptedFunction = Arc<dyn Fn(Value) -> Value + Send + Sync>;
/// A future that a compute manager polls.
pub type Pending = Pin<Box<dyn Future<Output = Value> + Send>>;
/// A function that makes a future.
pub type AsyncFunction = Arc<dyn Fn(Value) -> Pending + Send + Sync>;

/// A function for a device, as source text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The program's text.
    pub source: String,
    /// Which of its functions.
    pub name: String,
    /// How many work items, in each dimension.
    pub range: [usize; 3],
}

/// In which form a function is given.
#[derive(Clone)]
pub enum Format {
    /// An ordinary function.
    Function(Function),
    /// One that is never suspended.
    Uninterrupted(UninterruptedFunction),
    /// An asynchronous one.
    Async(AsyncFunction),
    /// One for a device.
    Kernel(Arc<Kernel>),
}

/// The static description of a function (hicr.txt 3.1.5): it can be copied and, by its name, sent.
#[derive(Clone)]
pub struct ExecutionUnit {
    name: Option<Arc<str>>,
    format: Format,
    argument: Option<(TypeId, &'static str)>,
}

impl ExecutionUnit {
    /// Of a function.
    pub fn function<A: Send + 'static, R: Send + 'static>(
        function: impl Fn(&mut dyn Context, A) -> R + Send + Sync + 'static,
    ) -> Self {
        let function = move |context: &mut dyn Context, argument: Value| -> Value {
            let argument = argument.downcast().expect("checked when the execution state was made");
            Box::new(function(context, *argument))
        };
        Self::of::<A>(Format::Function(Arc::new(function)))
    }

    /// Of a function that is never suspended: it has no [`Context`] to ask for it, so that every compute manager of
    /// functions runs it on the thread that called [`ComputeManager::run`], without a thread or a stack of its own.
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

    /// Of an asynchronous function.
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

    /// Of a kernel; its arguments are what the back-end asks for.
    pub fn kernel(kernel: Kernel) -> Self {
        Self { name: None, format: Format::Kernel(Arc::new(kernel)), argument: None }
    }

    fn of<A: 'static>(format: Format) -> Self {
        Self { name: None, format, argument: Some((TypeId::of::<A>(), type_name::<A>())) }
    }

    /// The same under a name, by which it can be sent.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Its name, if it has one.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("a function without a name")
    }

    /// Its form.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Refused when the function takes something else.
    pub fn check(&self, argument: &Value) -> Result<(), Error> {
        match self.argument {
            Some((type_, name)) if type_ != (**argument).type_id() => {
                let why =
                    format!("{} takes an argument of type {name}, and was given another one", self.name());
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

/// Functions by name: both ends of a wire have the same, and send only names.
#[derive(Clone, Debug, Default)]
pub struct Registry(BTreeMap<String, ExecutionUnit>);

impl Registry {
    /// Adds a unit under its name.
    pub fn register(&mut self, unit: ExecutionUnit) -> Result<(), Error> {
        let name = unit.name.as_deref().ok_or_else(Self::nameless)?.to_owned();
        if self.0.contains_key(&name) {
            return Err(Error::misuse(
                "register a function",
                format!("{name:?} is registered already; name it anew"),
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

    /// What is sent of a unit.
    pub fn to_bytes(&self, unit: &ExecutionUnit) -> Result<Vec<u8>, Error> {
        unit.name.as_deref().map(|name| name.as_bytes().to_vec()).ok_or_else(Self::nameless)
    }

    /// The unit of which this was sent.
    pub fn from_bytes(&self, bytes: &[u8]) -> Result<ExecutionUnit, Error> {
        let name = String::from_utf8_lossy(bytes);
        self.0.get(&*name).cloned().ok_or_else(|| {
            Error::misuse(
                "receive a function",
                format!("{name:?} is not registered here; register it before"),
            )
        })
    }
}
