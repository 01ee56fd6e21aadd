/** Reads single settings from flags, variables and files; remembers where each came from, and every fault. */
import { readFileSync } from 'node:fs';

export type Variables = Readonly<Record<string, string | undefined>>;

/** One setting, as the help shows it and the source looks for it. */
interface SettingDefinition<Value> {
  /** The environment variable; a secret has a twin that ends in _FILE. */
  readonly variable: string;
  /** Absent for secrets: other users of the machine can read a command line. */
  readonly flag?: string;
  readonly meaning: string;
  /** Where nobody set it. */
  readonly fallback: Value;
  /** How the fallback is called in the help, where its value does not speak for itself. */
  readonly fallbackText?: string;
  readonly secret?: boolean;
  /** The value, or a fault that says what to write. */
  readonly parse: (text: string) => Value | Fault;
}

/** What is wrong with a setting, and what to write instead. */
export class Fault {
  readonly message: string;

  constructor(message: string) {
    this.message = message;
  }
}

/** Every fault of the settings at once, so that they are mended at once. */
export class ServerSettingsError extends Error {
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`The settings of the server cannot be used:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.name = 'ServerSettingsError';
    this.faults = faults;
  }
}

export interface SettingSource {
  read<Value>(definition: SettingDefinition<Value>): Value;
  /** Notes what is wrong with settings that hold each on their own. */
  fault(message: string): void;
  /** Throws ServerSettingsError if anything was wrong, flags that nobody read included. */
  finish(): void;
  /** Every setting that was read, with its value and where it came from. */
  describe(): string;
  /** Variables that look like settings and were not read: typing mistakes, and what other releases know. */
  unread(): readonly string[];
}

interface Found {
  readonly text: string;
  readonly place: string;
}

export function createSettingSource(argv: readonly string[], variables: Variables): SettingSource {
  const faults: string[] = [];
  const flags = readFlags(argv, faults);
  const lines: string[] = [];
  const known = new Set<string>();
  return {
    read(definition) {
      known.add(definition.variable);
      if (definition.secret) known.add(`${definition.variable}_FILE`);
      const found = find(definition, flags, variables, faults);
      const parsed = found ? definition.parse(found.text) : definition.fallback;
      const value = parsed instanceof Fault ? definition.fallback : parsed;
      if (found && parsed instanceof Fault) faults.push(`${found.place} ${parsed.message}`);
      lines.push(describe(definition, value, found));
      return value;
    },
    fault: (message) => faults.push(message),
    finish() {
      faults.push(...[...flags.keys()].map((flag) => `--${flag} is not a setting; --help lists them all.`));
      if (faults.length > 0) throw new ServerSettingsError(faults);
    },
    describe: () => lines.join('\n'),
    unread: () => Object.keys(variables).filter((name) => name.startsWith('SERVICE_') && !known.has(name)),
  };
}

/** `--port 8090`, `--port=8090`, and `--strict` alone for yes. */
function readFlags(argv: readonly string[], faults: string[]): Map<string, string> {
  const flags = new Map<string, string>();
  for (let at = 0; at < argv.length; at += 1) {
    const [, name, value] = /^--([a-z][a-z-]*)(?:=(.*))?$/s.exec(argv[at] ?? '') ?? [];
    const next = argv[at + 1];
    if (name === undefined) faults.push(`${JSON.stringify(argv[at])} is not a flag; --help lists them all.`);
    else if (flags.has(name)) faults.push(`--${name} is given twice.`);
    else if (value !== undefined) flags.set(name, value);
    else if (next === undefined || next.startsWith('--')) flags.set(name, 'true');
    else {
      flags.set(name, next);
      at += 1;
    }
  }
  return flags;
}

/** A flag goes before a variable, and a variable before its file. */
function find<Value>(
  { flag, variable, secret }: SettingDefinition<Value>,
  flags: Map<string, string>,
  variables: Variables,
  faults: string[],
): Found | null {
  const given = flag === undefined ? undefined : flags.get(flag);
  if (flag !== undefined) flags.delete(flag);
  if (given !== undefined) return { text: given, place: `--${flag}` };
  const text = variables[variable];
  const file = secret ? variables[`${variable}_FILE`] : undefined;
  if (text && file) faults.push(`${variable} and ${variable}_FILE are both set; keep one of them.`);
  if (text) return { text, place: variable };
  return file ? readSecret(`${variable}_FILE`, file, faults) : null;
}

function readSecret(place: string, file: string, faults: string[]): Found | null {
  try {
    return { text: readFileSync(file, 'utf8').replace(/\r?\n$/, ''), place };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'; // readFileSync throws nothing else
    faults.push(`${place} names a file that cannot be read (${code}): ${file}`);
    return null;
  }
}

function describe<Value>(definition: SettingDefinition<Value>, value: Value, found: Found | null): string {
  const names =
    definition.flag === undefined ? definition.variable : `--${definition.flag}, ${definition.variable}`;
  const shown = definition.secret && found ? '(set, not shown)' : textOf(value, found);
  const fallback = definition.fallbackText ? `${shown} ${definition.fallbackText}`.trim() : shown;
  return `  ${names}\n      ${definition.meaning}\n      = ${found ? `${shown} (from ${found.place})` : `${fallback} (default)`}`;
}

function textOf(value: unknown, found: Found | null): string {
  if (value === null || (Array.isArray(value) && value.length === 0)) return 'none';
  // What has members is best shown as it was written.
  if (typeof value === 'object' && !Array.isArray(value)) return found?.text ?? 'none';
  return Array.isArray(value) ? value.join(', ') : String(value);
}
