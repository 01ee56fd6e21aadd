/** What language servers say is wrong with files: taken in whatever form it comes, kept in bounds. */
import { fileURLToPath, pathToFileURL } from 'node:url';
import { itemsOf, memberOf, textOf } from './server-requests.ts';

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
  /** The version of the document that it is about, where the server tells. */
  readonly version: number | null;
  /** When it came, by `performance.now()`. */
  readonly at: number;
}

const mostOfFile = 200;
const mostFiles = 2000;
const longestMessage = 500;

const severities = ['error', 'error', 'warning', 'information', 'hint'] as const;

/** The latest report of each file. */
export class Reports {
  readonly #byPath = new Map<string, FileReport>();

  /** Takes a notification as it came; what is not of the protocol's shape is passed over. */
  publish(params: unknown): void {
    const path = pathOf(textOf(params, 'uri'));
    if (path === null) return;
    const named = memberOf(params, 'version');
    const version = typeof named === 'number' ? named : null;
    // What it still has to say of an earlier version does not replace what it said of a later one.
    if (version !== null && version < (this.#byPath.get(path)?.version ?? version)) return;
    this.set(path, reportOf(itemsOf(params, 'diagnostics'), version));
  }

  set(path: string, report: FileReport): void {
    this.#byPath.delete(path);
    this.#byPath.set(path, report);
    const [oldest] = this.#byPath.keys();
    if (oldest !== undefined && this.#byPath.size > mostFiles) this.#byPath.delete(oldest);
  }

  get(path: string): FileReport | undefined {
    return this.#byPath.get(path);
  }

  /** Of a file that is gone, or is no document any more: not every server says so. */
  delete(path: string): void {
    this.#byPath.delete(path);
  }

  all(): ReadonlyMap<string, FileReport> {
    return this.#byPath;
  }
}

/** A list of the protocol's diagnostics as a report of one file. */
export function reportOf(items: readonly unknown[], version: number | null): FileReport {
  const count = (severity: Diagnostic['severity']) =>
    items.filter((item) => severityOf(item) === severity).length;
  const read = items.slice(0, 10 * mostOfFile).map(diagnosticOf);
  // Stable: within a severity they stay in the order of the server.
  const sorted = read.toSorted((one, other) => rank(one) - rank(other));
  return {
    diagnostics: sorted.slice(0, mostOfFile),
    total: items.length,
    errors: count('error'),
    warnings: count('warning'),
    version,
    at: performance.now(),
  };
}

/** The path of a file's address; null for other addresses. */
export function pathOf(uri: string | undefined): string | null {
  if (!uri?.startsWith('file:')) return null;
  try {
    return fileURLToPath(uri);
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
  const line = text
    .slice(0, longest * 10)
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
