//! Macros that define `call` and `apply` for each number of arguments, each by value or by
//! reference.

/// Defines `call` with this documentation, for a type with a method `run`.
macro_rules! call {
    (
        [($function:ident $($lifetime:lifetime)?) $($docs:tt)*]
        $(($index:tt $name:ident $param:ident $value:ident))*
    ) => {
        impl<$($name: Tree,)* O: Tree> $function<$($lifetime,)? ($($name,)*), O> {
            $($docs)*
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn call<$($param: crate::tree::Arg<$name>),*>(
                &self,
                $($value: $param),*
            ) -> Result<O, crate::jit::CallError<<($($name,)*) as Args>::Returned>> {
                let loc = crate::core::Loc::caller();
                $(let $value = $value.hold();)*
                match self.run(($(&*$value,)*), &[$($param::PASSING),*]) {
                    Ok(output) => Ok(output),
                    Err(Failure { error, consumed }) => {
                        // Not used by a function without arguments.
                        let _ = consumed;
                        let args = ($({
                            let lost = consumed
                                && crate::runtime::any_deleted(&crate::tree::leaves(&*$value));
                            $param::release($value).filter(|_| !lost)
                        },)*);
                        Err(crate::jit::CallError { error: error.at(loc), args: Box::new(args) })
                    }
                }
            }
        }
    };
}

/// Defines `Jit::apply`.
macro_rules! apply {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree,)* O: Tree> Jit<'_, ($($name,)*), O> {
            /// Calls the function and throws errors instead of returning them, for use in traced
            /// code. See [`Jit::call`].
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn apply<$($param: crate::tree::Arg<$name>),*>(&self, $($value: $param),*) -> O {
                match self.call($($value),*) {
                    Ok(output) => output,
                    Err(failed) => trace::throw(failed.error),
                }
            }
        }
    };
}

/// Defines `Jit::lower`.
macro_rules! lower {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree,)* O: Tree> Jit<'_, ($($name,)*), O> {
            /// Traces the function on arguments of these types, without compiling or running it.
            /// Each argument is a tree, a reference to one, or an [`Aval`](crate::core::Aval).
            /// [`Lowered::compile`] compiles the result.
            ///
            /// # Errors
            /// Errors that the function throws; `Op` (value, shape) if a sharding does not fit.
            ///
            /// ```
            /// use oxidax::prelude::*;
            /// let f32s = |shape: &[usize]| Aval::new(DType::F32, shape);
            /// let product = jit(|x: &Array, w: &Array| x.matmul(w));
            /// let lowered = product.lower(f32s(&[8, 3]), f32s(&[3, 2]))?;
            /// assert!(lowered.as_text("cpu")?.contains("stablehlo.dot_general"));
            /// # Ok::<(), oxidax::Error>(())
            /// ```
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn lower(
                &self,
                $($value: impl crate::tree::Example<$name>),*
            ) -> Result<Lowered<($($name,)*), O>, Error> {
                self.lower_arguments(&($($value.example(),)*))
            }

            /// Compiles the function for arguments of these types, without running it. Calls with
            /// such arguments then start at once, and a call during the compilation waits for it.
            /// Each argument is a tree, a reference to one, or an [`Aval`](crate::core::Aval);
            /// arrays on other devices than the default are passed as they will be in calls, since
            /// their placement is part of the program.
            ///
            /// Programs that do not depend on each other compile in parallel on several threads.
            /// Settings of scopes are those of the calling thread. Inside
            /// [`disable_jit`](crate::transforms::disable_jit) nothing is compiled.
            ///
            /// # Errors
            /// As those of a call, except for errors of execution.
            ///
            /// ```
            /// use oxidax::prelude::*;
            /// let step = jit(|w: Array, x: Array| &w - grad(|w: &Array| x.matmul(w).sum())(&w));
            /// let evaluate = jit(|w: &Array, x: &Array| x.matmul(w).mean());
            /// let (w, x) = (Aval::new(DType::F32, [8, 2]), Aval::new(DType::F32, [4, 8]));
            /// std::thread::scope(|scope| {
            ///     let other = scope.spawn(|| evaluate.compile_ahead(&w, &x));
            ///     step.compile_ahead(&w, &x)?;
            ///     other.join().expect("no panic")
            /// })?;
            /// let w = step.call(ones([8, 2]), &ones([4, 8]))?;
            /// evaluate.call(&w, &ones([4, 8]))?;
            /// assert_eq!((step.stats().compiles, step.stats().hits), (1, 1));
            /// # Ok::<(), oxidax::Error>(())
            /// ```
            #[doc(alias = "warmup")]
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn compile_ahead(
                &self,
                $($value: impl crate::tree::Example<$name>),*
            ) -> Result<(), Error> {
                self.compile_arguments(&($($value.example(),)*))
            }
        }
    };
}

/// Defines `Jit::record`.
macro_rules! record {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree,)* O: Tree> Jit<'_, ($($name,)*), O> {
            /// Writes a call with these arguments to a file, without running it: the traced program
            /// with its source lines, and the elements of the arguments. `oxidax replay FILE` runs
            /// it operation by operation; see [`replay`](crate::replay).
            ///
            /// # Errors
            /// Errors that the function throws; `Op` (unsupported) if it takes results from a
            /// closure on the host; `Runtime` if an argument's computation failed; `Io`.
            ///
            /// ```
            /// use oxidax::prelude::*;
            /// use oxidax::replay::Recording;
            /// let folder = tempfile::tempdir().expect("a folder");
            /// let file = folder.path().join("step.failure");
            /// let step = jit(|w: Array, x: Array| &w - &x * 0.1).name("step");
            /// step.record(&file, &zeros([3]), &ones([3]))?;
            /// let recording = Recording::open(&file)?;
            /// assert_eq!(recording.inputs().map(|(path, _)| path).collect::<Vec<_>>(), [
            ///     "$[0]", "$[1]"
            /// ]);
            /// assert!(recording.replay()?.found.is_none());
            /// # Ok::<(), oxidax::Error>(())
            /// ```
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn record<$($param: crate::tree::Arg<$name>),*>(
                &self,
                path: impl AsRef<std::path::Path>,
                $($value: $param),*
            ) -> Result<(), Error> {
                $(let $value = $value.hold();)*
                self.record_call(path.as_ref(), ($(&*$value,)*))
            }
        }
    };
}

pub(super) use {apply, call, lower, record};
