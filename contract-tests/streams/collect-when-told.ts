/** Loaded into a server before its program: on a signal it collects what nobody holds, so that what is measured is held. */
process.on('SIGUSR2', () => globalThis.gc?.());
