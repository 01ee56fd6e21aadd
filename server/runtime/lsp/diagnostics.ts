/** What language servers say is wrong with files: taken in whatever form it comes, kept in bounds. */
import { fileURLToPath, pathToFileURL } from 'node:url';
import { keepNewest } from '../../keep-newest.ts';
import { merged, type Tally, tallyOf } from './error-tally.ts';
import { itemsOf, memberOf, textOf } from './server-requests.ts';
import { startOf } from './start-of-text.ts';

/** Something that a language server says about a place in a file. */
export interface Diagnostic {
  readonly severity: 'error' | 'warning' | 'information' | 'hint';
  /** From 1. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
  /** Who found it, and its code there: `ts 2322`. */
  readonly source: string;
}

/** What is known of a file. */
export interface FileReport {
  readonly diagnostics: readonly Diagnostic[];
  /** How many there were before the bound. */
  readonly total: number;
  readonly errors: number;
  readonly warnings: number;
  /** Of the errors; counted when they come, since each edit looks at those of all files. */
  readonly tally: Tally;
  /** The version of the document that it is about, where the server tells. */
  readonly version: number | null;
  /** When it came, by `performance.now()`. */
  readonly at: number;
}

const mostOfFile = 200;
const mostFiles = 2000;
const longestMessage = 500;
/** None is longer on Linux, and what is said of files is kept by their paths. */
const longestPath = 4096;

const severities = ['error', 'error', 'warning', 'information', 'hint'] as const;

/**
 * The latest reports of each file: what the server published of it, and what it answered when it was asked. Some do both,
 * and not of the same things: rust-analyzer answers what it finds itself, and publishes what the compiler finds later.
 */
export class Reports {
  readonly #published = new Map<string, FileReport>();
  readonly #answered = new Map<string, FileReport>();
  /** What it answered of all that is wrong with a file, whatever it has published since. */
  readonly #whole = new Map<string, FileReport>();
  #newest: number | null = null;

  /** When the latest of all came, by `performance.now()`; null before the first. */
  get newest(): number | null {
    return this.#newest;
  }

  /** Takes a notification as it came; what is not of the protocol's shape is passed over. */
  publish(params: unknown): void {
    const path = pathOf(textOf(params, 'uri'));
    if (path === null) return;
    const named = memberOf(params, 'version');
    const version = typeof named === 'number' ? named : null;
    // What it still has to say of an earlier version does not replace what it said of a later one.
    if (version !== null && version < (this.#published.get(path)?.version ?? version)) return;
    this.#set(this.#published, path, reportOf(itemsOf(params, 'diagnostics'), version));
  }

  /** Sets what takes the place of all that was published of the file, until something is again. */
  replace(path: string, report: FileReport): void {
    this.#set(this.#published, path, report);
    keepNewest(this.#whole, path, report, mostFiles);
  }

  /** Sets what stands beside that which was published. */
  answer(path: string, report: FileReport): void {
    this.#set(this.#answered, path, report);
  }

  #set(reports: Map<string, FileReport>, path: string, report: FileReport): void {
    this.#newest = report.at;
    keepNewest(reports, path, report, mostFiles);
  }

  /** All that it last said of the file, one way or another: what it found at some time, and has not taken back in all of them. */
  said(path: string): readonly FileReport[] {
    return [this.#published, this.#answered, this.#whole].flatMap((reports) => reports.get(path) ?? []);
  }

  published(path: string): FileReport | undefined {
    return this.#published.get(path);
  }

  answered(path: string): FileReport | undefined {
    return this.#answered.get(path);
  }

  /** Of the files that it has said something of. */
  paths(): ReadonlySet<string> {
    return new Set([...this.#published.keys(), ...this.#answered.keys()]);
  }

  /** Of a file that is gone, or is no document any more: not every server says so. */
  delete(path: string): void {
    this.#published.delete(path);
    this.#whole.delete(path);
    this.#answered.delete(path);
  }

  all(): ReadonlyMap<string, FileReport> {
    const all = new Map(this.#published);
    for (const [path, answered] of this.#answered) {
      const published = all.get(path);
      all.set(path, published && !isOlder(published, answered) ? together(answered, published) : answered);
    }
    return all;
  }
}

function isOlder(one: FileReport, other: FileReport): boolean {
  return one.version !== null && other.version !== null && one.version < other.version;
}

/** Both reports of one file; what stands in both is told once. */
export function together(one: FileReport, other: FileReport): FileReport {
  const keys = new Set(one.diagnostics.map(keyOf));
  const more = other.diagnostics.filter((diagnostic) => !keys.has(keyOf(diagnostic)));
  if (more.length === 0) return one;
  const known = other.diagnostics.length - more.length;
  const added = (severity: Diagnostic['severity'], all: number) =>
    all - other.diagnostics.filter((each) => each.severity === severity && keys.has(keyOf(each))).length;
  return {
    diagnostics: sorted([...one.diagnostics, ...more]),
    total: one.total + other.total - known,
    errors: one.errors + added('error', other.errors),
    // Not the sum: what stands in both may be one error at two places, and hide a second one that comes later.
    tally: merged(one.tally, other.tally),
    warnings: one.warnings + added('warning', other.warnings),
    version: one.version,
    at: Math.max(one.at, other.at),
  };
}

function keyOf({ severity, line, column, message, source }: Diagnostic): string {
  return [severity, line, column, source, message].join(' ');
}

/** A list of the protocol's diagnostics as a report of one file. */
export function reportOf(items: readonly unknown[], version: number | null): FileReport {
  const count = (severity: Diagnostic['severity']) =>
    items.filter((item) => severityOf(item) === severity).length;
  const diagnostics = sorted(items.slice(0, 10 * mostOfFile).map(diagnosticOf));
  const errors = count('error');
  const messages = errorsIn(diagnostics).map(({ message }) => message);
  return {
    diagnostics,
    total: items.length,
    errors,
    tally: tallyOf(messages, errors),
    warnings: count('warning'),
    version,
    at: performance.now(),
  };
}

/** Those that are held. */
export function errorsIn(diagnostics: readonly Diagnostic[]): readonly Diagnostic[] {
  return diagnostics.filter(({ severity }) => severity === 'error');
}

/** The worst first, and within a severity in the order of the server; as many as are kept. */
function sorted(diagnostics: readonly Diagnostic[]): readonly Diagnostic[] {
  return diagnostics.toSorted((one, other) => rank(one) - rank(other)).slice(0, mostOfFile);
}

/** The path of a file's address; null for other addresses. */
export function pathOf(uri: string | undefined): string | null {
  if (!uri?.startsWith('file:')) return null;
  try {
    const path = fileURLToPath(uri);
    return path.length > longestPath ? null : path;
  } catch {
    // An address of another machine, or none at all.
    return null;
  }
}

/** The address of a file. */
export function uriOf(path: string): string {
  return pathToFileURL(path).href;
}

/** One line, of bounded length: it goes to the model. */
function oneLine(text: string, longest = longestMessage): string {
  // It may have megabytes, of which one line is shown.
  const line = startOf(text, longest * 10)
    .replace(/\s+/g, ' ')
    .trim();
  return line.length > longest ? `${line.slice(0, longest)}…` : line;
}

function rank({ severity }: Diagnostic): number {
  return ['error', 'warning', 'information', 'hint'].indexOf(severity);
}

function diagnosticOf(item: unknown): Diagnostic {
  const start = memberOf(memberOf(item, 'range'), 'start');
  const code = memberOf(item, 'code');
  const message = memberOf(item, 'message');
  return {
    severity: severityOf(item),
    line: numberOf(start, 'line') + 1,
    column: numberOf(start, 'character') + 1,
    message: oneLine(typeof message === 'string' ? message : (textOf(message, 'value') ?? '')),
    source: oneLine([textOf(item, 'source'), code].filter(isWord).join(' '), 60),
  };
}

/** Without a severity it is for the client to judge: an error, as editors have it. */
function severityOf(item: unknown): Diagnostic['severity'] {
  const severity = memberOf(item, 'severity');
  return severities[typeof severity === 'number' ? severity : 1] ?? 'error';
}

function isWord(value: unknown): boolean {
  return (typeof value === 'string' && value !== '') || typeof value === 'number';
}

function numberOf(value: unknown, name: string): number {
  const member = memberOf(value, name);
  return typeof member === 'number' && Number.isFinite(member) ? member : 0;
}
