/** The environment of a process that settings name: built, so that no setting and no key of this process is in it. */

/** What a program needs to find its way; nothing else is inherited. */
const inherited = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LC_ALL', 'TZ', 'TERM', 'TMPDIR'];
const defaultSearchPath = '/usr/local/bin:/usr/bin:/bin';

/** What every such process gets, and what its settings add. */
export function childEnvironment(added: Readonly<Record<string, string>> = {}): Record<string, string> {
  return { PATH: defaultSearchPath, ...variablesNamed(inherited), ...added };
}

/** Those of this process that are set. */
export function variablesNamed(names: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
}
