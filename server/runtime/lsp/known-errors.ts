/** Which errors of files are news to the model: neither there before it changed anything, nor told before. */
import { keepNewest } from '../../keep-newest.ts';
import { statsInPlace } from '../tools/read-in-place.ts';
import { type Diagnostic, errorsIn, type FileReport } from './diagnostics.ts';
import type { SyncedDocument } from './documents.ts';
import { common, countIn, isWithin, type Tally, withTally } from './error-tally.ts';
import { isCurrent } from './judgement.ts';
import type { LanguageClient } from './language-client.ts';

/** Errors of a file that are news. */
export interface NewErrors {
  readonly path: string;
  /** Found too late for the note of the change that made this text; or that made the text before this one; else null. */
  readonly late: 'in this text' | 'in the text before' | null;
  readonly count: number;
  /** Those of them that are held, where they were found late; of others there may be very many. */
  readonly listed: readonly Diagnostic[];
}

/** A change of which a server is about to be told. */
export interface BegunChange {
  readonly path: string;
  /** By `performance.now()`. */
  readonly since: number;
  /** What was published of changed files by then and is not told yet: some servers take it back at each change. */
  readonly late: ReadonlyMap<string, FileReport>;
}

/** A change that has been judged, as far as there was time. */
export interface JudgedChange extends BegunChange {
  /** Null where nothing was said of it in time. */
  readonly report: FileReport | null;
  /** What was answered of others since. */
  readonly answers: ReadonlyMap<string, FileReport>;
}

/** A process of the server, and what it has said. */
type Client = Pick<LanguageClient, 'documents' | 'reports'>;

type SentVersion = Pick<SyncedDocument, 'version' | 'since'>;

/** What there is between us and a process of the server. */
interface Acquaintance {
  /** When it was first told of a change, and when it was last. */
  firstChange: number;
  lastChange: number;
  /** Until the change after the first one that it said anything after: so long it may still say what was wrong before. */
  isNew: boolean;
  /** Whether it has published errors of a file that was not open: then none that it publishes are due to an opening. */
  looksEverywhere: boolean;
  /** The last version of each file that a note was about; and the first, where the file had not been changed before it. */
  readonly changes: Map<string, { readonly first: SentVersion | null; readonly last: SentVersion }>;
}

/** What is known of the errors of a file: what was found at some times, as it came. */
interface Known {
  /** Never forgotten: what a server takes back it may only be looking for again. */
  readonly old: readonly Tally[];
  /** Of the text that the file has; without what was gone when the last change of any file began. */
  readonly told: readonly Tally[];
  /** What that was until then. */
  readonly toldBefore: readonly Tally[];
}

/** As many as files are reported of. */
const mostFiles = 2000;
const nothing: Known = { old: [], told: [], toldBefore: [] };

/**
 * What is known of the errors that one server finds. What it finds too late for the note of a change belongs into the next
 * note, of whoever makes the next change: sessions that share a workspace share its files, and no server tells which change
 * made an error. So an error is told to one of them, once; again only when the file was changed and still has it, as the
 * notes of the file itself do, or when it was gone. This outlives a process of the server: the next one finds the same
 * errors anew.
 */
export class KnownErrors {
  readonly #known = new Map<string, Known>();
  readonly #changed = new Map<string, true>();
  /** Files whose own notes are being made, which tell their errors. */
  readonly #judged: string[] = [];
  readonly #acquaintances = new WeakMap<Client, Acquaintance>();

  /** Before the server is told of a change: forgets what is gone, and learns what is no change's doing. */
  begin(client: Client, path: string): BegunChange {
    const acquaintance = this.#acquaintanceOf(client);
    const since = performance.now();
    const sent = client.documents.get(path);
    // It was changed while it was open, by a command, say: what is said of it by now was not wrong of old.
    if (sent && sent.since > sent.opened) this.change(path);
    this.#learnOld(client);
    // Changes that are made at once see the same moment: together they are one.
    if (this.#judged.length === 0) {
      this.#forgetGone(client);
      if ((client.reports.newest ?? 0) > acquaintance.firstChange) acquaintance.isNew = false;
    }
    acquaintance.firstChange = Math.min(acquaintance.firstChange, since);
    acquaintance.lastChange = since;
    this.#judged.push(path);
    return { path, since, late: this.#lateOf(client) };
  }

  /** After the note of a change that was begun. */
  end(path: string): void {
    this.change(path);
    this.#judged.splice(this.#judged.indexOf(path), 1);
  }

  /** A file was changed, whether or not the server could be told. */
  change(path: string): void {
    keepNewest(this.#changed, path, true, mostFiles);
  }

  /** What was told of a file in some other way. */
  tell(path: string, report: FileReport): void {
    this.#add(path, 'told', report);
  }

  /** What is to be told after a change besides the report of it; it counts as told from now on. */
  take(client: Client, change: JudgedChange): readonly NewErrors[] {
    const former = this.#formerErrors(client, change);
    this.#noteVersion(client, change);
    const others = [...client.reports.paths()].flatMap((other) => this.#newsOf(client, change, other));
    const gone = [...change.late].flatMap(([other, report]) =>
      this.#judged.includes(other) ? [] : this.#newsBefore(other, report, []),
    );
    return [...former, ...others, ...gone];
  }

  /** What is published and not told, of each changed file as it is. */
  #lateOf({ documents, reports }: Client): ReadonlyMap<string, FileReport> {
    const late = new Map<string, FileReport>();
    for (const path of this.#changed.keys()) {
      const [published, synced] = [reports.published(path), documents.get(path)];
      if (!published || (synced && !isCurrent(published, synced))) continue;
      if (countNew(published.tally, talliesOf(this.#knownOf(path))) > 0) late.set(path, published);
    }
    return late;
  }

  /** What it has said of the text before this change, when it was too late for its note. */
  #formerErrors(client: Client, { path, report, late }: JudgedChange): readonly NewErrors[] {
    const { last } = this.#acquaintanceOf(client).changes.get(path) ?? {};
    const [published, synced] = [client.reports.published(path), client.documents.get(path)];
    const isFormer =
      last && published && synced && !isCurrent(published, synced) && !isBefore(published, last);
    const former = isFormer ? published : late.get(path);
    return former ? this.#newsBefore(path, former, report ? [report.tally] : []) : [];
  }

  /** What of it is not told, and is not said of the text that the file has now. */
  #newsBefore(path: string, former: FileReport, now: readonly Tally[]): readonly NewErrors[] {
    const known = [...talliesOf(this.#knownOf(path)), ...now];
    const count = countNew(former.tally, known);
    if (count === 0 || !this.#hasRoom(path) || statsInPlace(path) === null) return [];
    this.#add(path, 'told', former);
    return [{ path, late: 'in the text before', count, listed: listNew(former, known) }];
  }

  /** Remembers of which text the note has been, and what it tells of it. */
  #noteVersion(client: Client, { path, report }: JudgedChange): void {
    const { changes } = this.#acquaintanceOf(client);
    const [former, synced] = [changes.get(path), client.documents.get(path)];
    const { old } = this.#knownOf(path);
    // Of two notes of one text, one may know nothing of it.
    if (report || former?.last.version !== synced?.version)
      this.#set(path, { old, told: report ? withTally([], report.tally) : [], toldBefore: [] });
    if (!synced) return;
    const last = { version: synced.version, since: synced.since };
    const first = former?.first ?? (this.#changed.has(path) ? null : last);
    keepNewest(changes, path, { first, last }, mostFiles);
  }

  /** What is to be told of another file. */
  #newsOf(client: Client, change: JudgedChange, path: string): readonly NewErrors[] {
    if (this.#judged.includes(path)) return [];
    // What it published comes first: what stands there as well as in an answer was found by then.
    return saidNow(client, change, path).flatMap((report) => this.#newsIn(client, change, path, report));
  }

  #newsIn(client: Client, { since }: JudgedChange, path: string, report: FileReport): readonly NewErrors[] {
    const known = talliesOf(this.#knownOf(path));
    const count = countNew(report.tally, known);
    if (count === 0 || !this.#hasRoom(path)) return [];
    const isChanged = this.#changed.has(path);
    const isOld = !isChanged && this.#acquaintanceOf(client).isNew;
    this.#add(path, isOld ? 'old' : 'told', report);
    const isLate = report.at < since;
    // Of files that were not open it may have been said before they went.
    if (isOld || (isLate && statsInPlace(path) === null)) return [];
    if (!isLate || !isChanged) return [{ path, late: null, count, listed: [] }];
    return [{ path, late: 'in this text', count, listed: listNew(report, known) }];
  }

  #learnOld(client: Client): void {
    const acquaintance = this.#acquaintanceOf(client);
    const { documents, reports } = client;
    const paths = [...reports.paths()];
    acquaintance.looksEverywhere ||= paths.some(
      (path) => !documents.wasOpened(path) && (reports.published(path)?.errors ?? 0) > 0,
    );
    for (const path of paths)
      for (const report of reports.said(path))
        if (this.#isOld(client, path, report)) this.#add(path, 'old', report);
    for (const [path, { first }] of acquaintance.changes) {
      const published = reports.published(path);
      if (first && published && isBefore(published, first)) this.#add(path, 'old', published);
    }
  }

  /**
   * Of a file that was not changed: what a process says at first; and what it says of a document that was opened since the
   * change before, where it would not have said so anyway.
   */
  #isOld(client: Client, path: string, report: FileReport): boolean {
    if (this.#changed.has(path) || this.#judged.includes(path)) return false;
    const { isNew, lastChange, looksEverywhere } = this.#acquaintanceOf(client);
    if (isNew) return true;
    const opened = client.documents.get(path)?.opened ?? 0;
    const isUnasked = looksEverywhere && report === client.reports.published(path);
    return opened > lastChange && report.at >= opened && !isUnasked;
  }

  /**
   * What was told and is gone is news when it comes back. A check may take back what it is about to find again, and so may
   * a server while it judges a change: so it is gone when two changes in a row began without it.
   */
  #forgetGone({ reports }: Client): void {
    const isFull = this.#known.size >= mostFiles;
    for (const [path, { old, told, toldBefore }] of this.#known) {
      const there = reports.said(path).map(({ tally }) => tally);
      if (isFull && there.every(({ size }) => size === 0)) this.#known.delete(path);
      // A new process has not spoken of it yet.
      else if (there.length > 0 || statsInPlace(path) === null)
        this.#set(path, { old, told: thoseOf([...toldBefore, ...told], there), toldBefore: told });
    }
  }

  #add(path: string, which: 'old' | 'told', { tally }: FileReport): void {
    const known = this.#knownOf(path);
    this.#set(path, { ...known, [which]: withTally(known[which], tally) });
  }

  #set(path: string, known: Known): void {
    if (talliesOf(known).length === 0) this.#known.delete(path);
    else if (this.#hasRoom(path)) this.#known.set(path, known);
  }

  /** Nothing is told of files beyond those that can be kept: it would be told at every change. */
  #hasRoom(path: string): boolean {
    return this.#known.has(path) || this.#known.size < mostFiles;
  }

  #knownOf(path: string): Known {
    return this.#known.get(path) ?? nothing;
  }

  #acquaintanceOf(client: Client): Acquaintance {
    const present = this.#acquaintances.get(client);
    if (present) return present;
    const made: Acquaintance = {
      firstChange: Infinity,
      lastChange: 0,
      isNew: true,
      looksEverywhere: false,
      changes: new Map(),
    };
    this.#acquaintances.set(client, made);
    return made;
  }
}

/** Whether it is about a text that was there before this version. */
function isBefore(report: FileReport, { version, since }: SentVersion): boolean {
  return report.version === null ? report.at < since : report.version < version;
}

/**
 * What it published and what it answered of the file, each only if it is about the file as it is. Where it was asked since,
 * what it published meanwhile may be about an earlier version.
 */
function saidNow(
  { documents, reports }: Client,
  { since, answers }: JudgedChange,
  path: string,
): readonly FileReport[] {
  const synced = documents.get(path);
  const [published, answer] = [reports.published(path), answers.get(path)];
  const isOvertaken = answer !== undefined && published !== undefined && published.at >= since;
  const said = isOvertaken ? [answer] : [published, answer ?? reports.answered(path)];
  return said.flatMap((report) => (report && (!synced || isCurrent(report, synced)) ? [report] : []));
}

function talliesOf({ old, told, toldBefore }: Known): readonly Tally[] {
  return [...old, ...told, ...toldBefore];
}

/** What of them is there. */
function thoseOf(tallies: readonly Tally[], there: readonly Tally[]): readonly Tally[] {
  return tallies.map((tally) => common(tally, there)).reduce<readonly Tally[]>(withTally, []);
}

/** How many are not known. */
function countNew(tally: Tally, known: readonly Tally[]): number {
  if (isWithin(tally, known)) return 0;
  let count = 0;
  for (const [message, times] of tally) count += Math.max(0, times - countIn(known, message));
  return count;
}

/** Those that are held. */
function listNew({ diagnostics }: FileReport, known: readonly Tally[]): readonly Diagnostic[] {
  const met = new Map<string, number>();
  return errorsIn(diagnostics).filter(({ message }) => {
    const count = (met.get(message) ?? 0) + 1;
    met.set(message, count);
    return count > countIn(known, message);
  });
}
