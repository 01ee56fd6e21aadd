/** One MCP server in one place: started when it is first used, kept while it is, and started anew when it was lost. */
import type {
  CallToolResult,
  Client,
  ElicitRequestFormParams,
  ElicitResult,
  Tool,
} from '@modelcontextprotocol/client';
import { ProtocolError, SdkError, SdkErrorCode } from '@modelcontextprotocol/client';
import type { McpServer } from '../../contract/config.ts';
import type { Log } from '../../log.ts';
import type { Outbound } from '../../outbound/outbound.ts';
import type { ExpandSetting, ExtensionState } from '../extension.ts';
import { orAborted } from '../or-aborted.ts';
import type { Sandbox, SandboxUnavailable } from '../processes/sandbox.ts';
import { PacedProgress } from '../tools/bounded-output.ts';
import type { ToolContext } from '../tools/tool.ts';
import { type CallClock, startCallClock } from './call-clock.ts';
import { elicit } from './elicitation.ts';
import { resolveEntry, timeoutMs } from './entry.ts';
import {
  isRefusal,
  isSessionGone,
  isSessionUnknown,
  LoginNeeded,
  loggable,
  McpFailure,
  OutcomeUnknown,
  oneLine,
  reasonOf,
  wantsLogin,
} from './failure.ts';
import { type Link, openLink } from './link.ts';
import { type Listing, listAll, missingOf } from './listing.ts';
import type { LoginKeeper } from './login-keeper.ts';

/** The times of a server; tests take shorter ones. */
export interface ServerTimes {
  /** How long a call may go on without progress, and in all. */
  readonly callSilenceMs: number;
  readonly callTotalMs: number;
  /** How long an unused server is kept. */
  readonly idleMs: number;
  /** The wait after the first failure, which doubles with each, and the longest. */
  readonly backOffMs: number;
  readonly longestBackOffMs: number;
}

export const serverTimes: ServerTimes = {
  callSilenceMs: 5 * 60_000,
  callTotalMs: 60 * 60_000,
  idleMs: 15 * 60_000,
  backOffMs: 2000,
  longestBackOffMs: 60_000,
};

const overdue = {
  silence: 'it gave no sign of life for too long',
  whole: 'it went on for too long',
} as const;
/** Node's timers take no longer one. */
const longestTimerMs = 2 ** 31 - 1;
const mostProgressRead = 1000;
/** More than anybody answers at once: each waits, is stored, and looks whether it was answered. */
const mostQuestions = 20;

/** What a server is built from. */
export interface ServerParts {
  readonly name: string;
  readonly workspacePath: string;
  /** Where its process has to run; null where it runs as its person's own. */
  readonly sandbox: Sandbox | SandboxUnavailable | null;
  readonly expand: ExpandSetting;
  readonly outbound: Outbound;
  /** Who gave its address. */
  readonly giver: 'operator' | 'account';
  readonly logins: LoginKeeper;
  /** What a person does to log in, as the rest of a sentence. */
  readonly loginHint: string;
  readonly log: Log;
  readonly times: ServerTimes;
}

interface Call {
  readonly context: ToolContext;
  readonly clock: CallClock;
  /** Those of its questions that a person has not answered yet. */
  readonly questions: Set<Promise<unknown>>;
  /** Aborts when the call has its answer. */
  readonly over: AbortController;
}

export class ConnectedServer {
  readonly #parts: ServerParts;
  readonly #calls = new Set<Call>();
  #requests = 0;
  readonly #end = new AbortController();
  #entry: McpServer;
  #link: Link | null = null;
  /** Those that are used no more, but for the calls that have begun on them. */
  readonly #left = new Set<Link>();
  #listing: Listing | null = null;
  #stale = false;
  #connecting: Promise<void> | null = null;
  #relisting: Promise<void> | null = null;
  /** How often it has not listed anew, in turn, and until when it is not asked again. */
  #unlisted = 0;
  #relistNotBefore = 0;
  #failure: { readonly why: string; readonly wasSlow: boolean; readonly needsLogin: boolean } | null = null;
  #failures = 0;
  #readyAt = 0;
  #failedAt = 0;
  #notBefore = 0;
  #idle: NodeJS.Timeout | undefined;
  #lastWords = '';

  constructor(entry: McpServer, parts: ServerParts) {
    this.#entry = entry;
    this.#parts = parts;
  }

  get entry(): McpServer {
    return this.#entry;
  }

  /** Takes up what needs no new connection: which tools are offered, and how long it may take. */
  set entry(entry: McpServer) {
    this.#entry = entry;
  }

  /** Whether somebody waits for its answer. */
  get busy(): boolean {
    return this.#calls.size + this.#requests > 0;
  }

  /** Whether somebody may wait for it to be there. */
  get connecting(): boolean {
    return this.#connecting !== null;
  }

  /** What it offers; null while it is not connected. */
  get listing(): Listing | null {
    return this.#link ? this.#listing : null;
  }

  get state(): Pick<ExtensionState, 'state' | 'detail'> {
    if (this.#link) return { state: 'ready', detail: this.#listing && missingOf(this.#listing) };
    if (this.#connecting && !this.#failure) return { state: 'starting', detail: null };
    return this.#failure ? { state: 'failed', detail: this.#failure.why } : { state: 'idle', detail: null };
  }

  /** Whether it failed since a person has to log in. */
  get needsLogin(): boolean {
    return this.#failure?.needsLogin ?? false;
  }

  /** Its process; null for a remote server, and while it is not connected. */
  get pid(): number | null {
    return this.#link?.pid ?? null;
  }

  /** The end of what a process that failed wrote to standard error. */
  get lastWords(): string {
    return this.#lastWords;
  }

  /** Connects where it is not connected and it is time to try; `state` says how that went. */
  async use(): Promise<void> {
    if (this.#end.signal.aborted) return;
    this.#keepAwake();
    if (this.#link) await this.#relist();
    // Listing anew may have shown that its session is no more.
    if (this.#link) return;
    if (!this.#connecting && performance.now() < this.#notBefore) return;
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    // Nobody waits twice for a server that does not answer: it is there when it is there.
    if (!this.#failure?.wasSlow) await this.#connecting;
  }

  /** Calls a tool. Rejects with McpFailure, or as the signal was aborted. */
  async callTool(
    tool: string,
    input: Record<string, unknown>,
    context: ToolContext,
  ): Promise<CallToolResult> {
    const clock = startCallClock(
      context.signal,
      this.#parts.times.callSilenceMs,
      this.#parts.times.callTotalMs,
    );
    const call = { context, clock, questions: new Set<Promise<unknown>>(), over: new AbortController() };
    // Each piece is stored with the run: a server that reports without end fills no database.
    const shown = new PacedProgress(context.progress);
    this.#calls.add(call);
    try {
      return await this.#ask(
        (client) =>
          client.callTool(
            { name: tool, arguments: input },
            {
              toolDefinition: this.#definitionOf(tool),
              signal: clock.signal,
              // The clock says when it is over: the library's would go on while a person is asked.
              timeout: longestTimerMs,
              onprogress: ({ progress, total, message }) => {
                clock.reset();
                const part = total === undefined ? `${progress}` : `${progress}/${total}`;
                // It may have ten megabytes, of which one line is shown.
                const words = oneLine((message ?? 'progress').slice(0, mostProgressRead));
                shown.push(`${words} (${part})\n`);
              },
            },
          ),
        isSessionUnknown,
        context.signal,
      );
    } catch (error) {
      // The tool may be gone, or may be called in another way now.
      if (error instanceof McpFailure && error.cause instanceof ProtocolError) this.#stale = true;
      const expired = clock.expired();
      if (expired) throw new OutcomeUnknown(overdue[expired]);
      throw error;
    } finally {
      this.#calls.delete(call);
      shown.end();
      clock.stop();
      this.#keepAwake();
      // What it still asks is asked for a call that is over: the run goes on once that is told.
      call.over.abort();
      await Promise.allSettled(call.questions);
    }
  }

  /** Asks for anything else: resources, prompts. Rejects with McpFailure. */
  async request<Answer>(
    ask: (
      client: Client,
      options: { readonly signal: AbortSignal; readonly timeout: number },
    ) => Promise<Answer>,
    signal: AbortSignal,
  ): Promise<Answer> {
    this.#requests += 1;
    try {
      return await this.#ask(
        (client) => ask(client, { signal, timeout: timeoutMs(this.#entry) }),
        isSessionGone,
        signal,
      );
    } finally {
      this.#requests -= 1;
    }
  }

  /**
   * What it says of the answers of a tool is left out: the library would throw an answer away that is not as it says.
   */
  #definitionOf(name: string): Tool {
    const listed = this.#listing?.tools.find((tool) => tool.name === name);
    return { name, inputSchema: listed?.inputSchema ?? { type: 'object' } };
  }

  async close(): Promise<void> {
    this.#end.abort(new McpFailure('it was stopped'));
    clearTimeout(this.#idle);
    await this.#connecting?.catch(() => undefined);
    await Promise.all([this.#drop(this.#link), ...[...this.#left].map((link) => link.close())]);
  }

  /** A session that the server no longer knows is begun anew; what may be asked twice is asked again there. */
  async #ask<Answer>(
    ask: (client: Client) => Promise<Answer>,
    mayAskAgain: (error: unknown) => boolean,
    signal: AbortSignal,
  ): Promise<Answer> {
    const link = await this.#linked(signal);
    try {
      return await link.during(() => ask(link.client));
    } catch (error) {
      if (error instanceof LoginNeeded) throw this.#loggedOut(error, link);
      if (!isSessionGone(error)) throw this.#failureOf(error, link);
      if (isSessionUnknown(error)) await this.#drop(link);
      else this.#leave(link);
      if (!mayAskAgain(error)) throw this.#failureOf(error, link);
      const again = await this.#linked(signal);
      return await again
        .during(() => ask(again.client))
        .catch((second: unknown) => {
          throw this.#failureOf(second, again);
        });
    }
  }

  /** Nothing more can be asked there: whoever uses it next connects anew, and hears the same until somebody has logged in. */
  #loggedOut(error: LoginNeeded, link: Link): McpFailure {
    const why = this.#whyNot(error);
    if (link === this.#link) this.#fail(why, false, true);
    this.#leave(link);
    return new LoginNeeded(why, { cause: error });
  }

  /** Whoever is stopped waits no longer; the server is connected to for others all the same. */
  async #linked(signal: AbortSignal): Promise<Link> {
    await orAborted(this.use(), signal);
    if (this.#link) return this.#link;
    throw new McpFailure(this.#failure?.why ?? 'it is not connected');
  }

  /** What a broken connection is broken by is known by the time its requests are told. */
  #failureOf(error: unknown, link: Link): unknown {
    const closed = error instanceof SdkError && error.code === SdkErrorCode.ConnectionClosed;
    if (closed && this.#link !== link && this.#failure) return new OutcomeUnknown(this.#failure.why);
    if (error instanceof Error && error.name === 'AbortError') return error;
    const Failure = isRefusal(error) ? McpFailure : OutcomeUnknown;
    return new Failure(this.#whyNot(error), { cause: error });
  }

  async #connect(): Promise<void> {
    const { log, name } = this.#parts;
    const limit = timeoutMs(this.#entry);
    const late = AbortSignal.timeout(limit);
    const signal = AbortSignal.any([late, this.#end.signal]);
    let opened: Link | null = null;
    const ends = {
      onLost: (error: Error) => void this.#lose(opened, error),
      onSessionGone: () => this.#leave(opened),
    };
    try {
      const target = await resolveEntry(name, this.#entry, this.#parts.expand, signal);
      const link = await openLink(target, { ...this.#linkParts(limit), ...ends }, signal);
      opened = link;
      try {
        // What changes while it is listed has to be listed again.
        this.#stale = false;
        this.#listing = await listAll(link.client, signal, limit);
      } catch (error) {
        await link.close();
        throw error;
      }
      if (this.#end.signal.aborted) return await link.close();
      this.#link = link;
      this.#failure = null;
      this.#unlisted = 0;
      this.#relistNotBefore = 0;
      this.#readyAt = performance.now();
      this.#keepAwake();
    } catch (error) {
      if (this.#end.signal.aborted) return;
      const known = error instanceof McpFailure || !late.aborted;
      const why = known ? this.#whyNot(error) : `it did not connect within ${limit / 1000} s`;
      log.warn({ ...loggable(error), mcp_server: name }, 'an MCP server cannot be used');
      this.#fail(why, late.aborted, wantsLogin(error));
    }
  }

  #whyNot(error: unknown): string {
    const hint = wantsLogin(error) ? `; ${this.#parts.loginHint}` : '';
    return `${reasonOf(error)}${hint}`;
  }

  #linkParts(limit: number) {
    const { workspacePath, sandbox, outbound, giver, logins, log, name } = this.#parts;
    return {
      ...{ workspacePath, sandbox, outbound, giver, logins, timeoutMs: limit },
      log: log.child({ mcp_server: name }),
      hear: (lastWords: string) => {
        this.#lastWords = lastWords;
      },
      onListChanged: () => {
        this.#stale = true;
      },
      onElicit: (asked: ElicitRequestFormParams, withdrawn: AbortSignal) => this.#elicit(asked, withdrawn),
    };
  }

  /** Only a call of which there is one at work has a person behind it that can be named. */
  async #elicit(asked: ElicitRequestFormParams, withdrawn: AbortSignal): Promise<ElicitResult> {
    const [call, ...others] = this.#calls;
    if (!call || others.length > 0 || call.questions.size === mostQuestions) return { action: 'cancel' };
    const signal = AbortSignal.any([withdrawn, call.over.signal]);
    const question = call.clock.pause(() => elicit(this.#parts.name, asked, call.context.ask, signal));
    call.questions.add(question);
    try {
      return await question;
    } finally {
      call.questions.delete(question);
    }
  }

  async #relist(): Promise<void> {
    if (!this.#stale || !this.#link) return;
    if (!this.#relisting && performance.now() < this.#relistNotBefore) return;
    this.#relisting ??= this.#listAnew(this.#link).finally(() => {
      this.#relisting = null;
    });
    // Here too nobody waits twice: until it lists again, what was listed before counts.
    if (this.#unlisted === 0) await this.#relisting;
  }

  async #listAnew(link: Link): Promise<void> {
    const limit = timeoutMs(this.#entry);
    const signal = AbortSignal.any([AbortSignal.timeout(limit), this.#end.signal]);
    this.#stale = false;
    try {
      const listing = await listAll(link.client, signal, limit);
      // Another connection has listed by itself.
      if (link !== this.#link) return;
      this.#listing = listing;
      this.#unlisted = 0;
    } catch (error) {
      if (isSessionGone(error)) return this.#leave(link);
      if (link !== this.#link) return;
      this.#stale = true;
      this.#relistNotBefore = performance.now() + this.#waitAfter(this.#unlisted);
      this.#unlisted += 1;
      this.#parts.log.warn(
        { ...loggable(error), mcp_server: this.#parts.name },
        'an MCP server does not list its tools',
      );
    }
  }

  async #lose(link: Link | null, error: Error): Promise<void> {
    if (link && this.#left.has(link)) return await link.close();
    if (!link || link !== this.#link) return;
    this.#parts.log.warn({ ...loggable(error), mcp_server: this.#parts.name }, 'an MCP server was lost');
    this.#fail(reasonOf(error), false);
    await this.#drop(link);
  }

  #fail(why: string, wasSlow: boolean, needsLogin = false): void {
    const now = performance.now();
    // One that was well for a while is started again at once, however it ended then.
    const wasWell =
      this.#readyAt > this.#failedAt && now - this.#readyAt > this.#parts.times.longestBackOffMs;
    if (wasWell) this.#failures = 0;
    this.#failedAt = now;
    // The first loss of a server that had been there says little: perhaps it was one bad call.
    this.#notBefore = this.#failures === 0 && this.#link ? 0 : now + this.#waitAfter(this.#failures);
    this.#failures += 1;
    this.#failure = { why, wasSlow, needsLogin };
  }

  #waitAfter(failures: number): number {
    const { backOffMs, longestBackOffMs } = this.#parts.times;
    return Math.min(backOffMs * 2 ** failures, longestBackOffMs);
  }

  /** Others may have dropped it already, and connected again. */
  async #drop(link: Link | null): Promise<void> {
    if (!link || link !== this.#link) return;
    this.#link = null;
    // It may be large, and counts no more.
    this.#listing = null;
    await link.close();
  }

  /** What one call was told is no end for the others: they may have done what nobody may do twice. */
  #leave(link: Link | null): void {
    if (!link || link !== this.#link) return;
    this.#link = null;
    this.#listing = null;
    this.#left.add(link);
    void link.leave().finally(() => this.#left.delete(link));
  }

  #keepAwake(): void {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => {
      if (this.busy) return this.#keepAwake();
      void this.#drop(this.#link);
    }, this.#parts.times.idleMs).unref();
  }
}
