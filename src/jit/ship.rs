//! Compiled functions as bytes: written down here, run in another process or on another machine.

use super::ahead::Compiled;
use super::artifact::{Artifact, Described};
use super::entry::Entry;
use super::planned::Planned;
use crate::core::{Array, Aval, Error, Loc, TreeError};
use crate::runtime::Executable;
use crate::tree::{Args, Arguments, Example, Examples, Signature, Tree, leaves_of, rebuild};
use std::sync::Arc;

impl<A: Args, O: Tree> Compiled<A, O> {
    /// The function as bytes, which [`Compiled::deserialize`] makes it of again, in any process on a machine like this one.
    ///
    /// They hold machine code of this plugin for these devices, the types of arguments and results, how these lie on a mesh, and the
    /// arrays that the function captured. How large they are is the plugin's affair.
    ///
    /// # Errors
    /// [`Error::Plugin`] if it calls closures of this process (callbacks, prints); [`Error::Runtime`] where the plugin does
    /// not write programs down.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let x = Aval::new(DType::F32, [8]);
    /// let bytes = jit(|x: Array| sin(&x)).lower(&x)?.compile()?.serialize()?;
    /// // In another process, which need not have the function:
    /// let sine = Compiled::<(Array,), Array>::deserialize(&bytes, &x, &x)?;
    /// let y = sine.call(&ones([8], DType::F32))?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "serialize_executable")]
    #[doc(alias = "export")]
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        self.to_bytes()
    }

    /// The function of these bytes. `arguments` and `results` stand for what it takes and gives: of the same structure and
    /// types, with or without elements.
    ///
    /// What was compiled for one device runs on the [default device](crate::parallel::default_device) here, what was compiled over
    /// a mesh on the devices of its numbers.
    ///
    /// The bytes hold machine code: load only what you trust. That nothing changed on the way is checked, who wrote it is not.
    ///
    /// # Errors
    /// [`Error::Tree`] with the first difference if it takes or gives something else; [`Error::Plugin`] if the bytes are
    /// damaged, or were made for another platform, plugin, kind or number of devices, or processor: the message says which;
    /// [`Error::Runtime`] if the plugin refuses them.
    #[track_caller]
    pub fn deserialize(
        bytes: &[u8],
        arguments: impl Examples<A>,
        results: impl Example<O>,
    ) -> Result<Compiled<A, O>, Error> {
        let (arguments, results) = (arguments.examples(), results.example());
        let view = Arguments::<A>(arguments.refs());
        let Artifact { head, program, captures, shipped } = Artifact::from_bytes(bytes)?;
        for (what, saved, found) in [
            ("arguments", &head.arguments, Described::of(&view)),
            ("results", &head.results, Described::of(&results)),
        ] {
            if let Some(difference) = saved.difference(&found) {
                return Err(Error::Tree(Box::new(TreeError {
                    path: "$".into(),
                    message: format!("`{}` was compiled for other {what}: {difference}", head.name),
                    loc: Loc::caller(),
                    help: Some(format!("give {what} of the types that it was compiled for")),
                })));
            }
        }
        let signature = Signature::of(&view);
        let mut leaves = leaves_of(&view).into_iter();
        let avals: Vec<Vec<Arc<Aval>>> = A::leaf_counts(arguments.refs())
            .into_iter()
            .map(|n| leaves.by_ref().take(n).map(|leaf| leaf.shared_aval().clone()).collect())
            .collect();
        let own = captures.iter().map(Array::shared_aval);
        let all: Vec<Aval> =
            avals.iter().flatten().chain(own).map(|aval| (**aval).clone()).collect();
        let given: Vec<Arc<Aval>> =
            leaves_of(&results).iter().map(|leaf| leaf.shared_aval().clone()).collect();
        let executable = Executable::unship(&head.name, &shipped, &all, given.clone())?;
        let template = rebuild(&results, given.into_iter().map(Array::of_shared_type).collect());
        let entry = Entry::new(executable, template, &captures, &avals)?;
        Ok(Compiled::of_parts(entry, signature, program, captures))
    }
}

impl Planned {
    /// The function as bytes, which [`Compiled::deserialize`] runs on a machine like the topology: with this very plugin, and devices
    /// of this kind, as many at least.
    ///
    /// # Errors
    /// As [`Compiled::serialize`].
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let x = Aval::new(DType::F32, [1024]);
    /// let planned = jit(|x: Array| sin(&x)).lower(&x)?.compile_for(&Topology::named("v5e:1x1")?)?;
    /// std::fs::write("sine.v5e", planned.serialize()?).expect("a place to write to");
    /// // On a TPU:
    /// let bytes = std::fs::read("sine.v5e").expect("the file");
    /// let sine = Compiled::<(Array,), Array>::deserialize(&bytes, &x, &x)?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        self.to_bytes()
    }
}
