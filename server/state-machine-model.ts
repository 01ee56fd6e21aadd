/** What a client may expect of sessions and their runs: the state machine of runs, as small as it can be said. */

/** What a prompt makes the scripted model do; see `script`. */
export type Kind = 'say' | 'hold' | 'run' | 'both' | 'same' | 'free' | 'ask' | 'write';
export type Status =
  | 'queued'
  | 'running'
  | 'waiting_permission'
  | 'waiting_prompt'
  | 'completed'
  | 'failed'
  | 'interrupted';

export interface ExpectedRun {
  readonly id: string;
  /** Unique: it stands in the prompt, in the answer, and in what its commands leave behind. */
  readonly name: string;
  readonly kind: Kind;
  readonly turn: number;
  status: Status;
  /** Whether it has ever been at work. */
  begun: boolean;
  /** Its calls that were decided, in order: whether they may have an effect. */
  readonly allowed: boolean[];
  /** Whether a kill may have met it in the middle of something. */
  cut: boolean;
}

/** A message as far as a copy has to be the same. */
export interface Said {
  readonly role: string;
  readonly parts: unknown;
}

/** A prompt and what followed: of a run, or copied from where the session was branched off. */
export type Passage = { reverted: boolean } & (
  | { readonly run: ExpectedRun }
  | { readonly run: null; readonly copied: readonly Said[] }
);

export interface ExpectedSession {
  readonly id: string;
  readonly passages: Passage[];
  turns: number;
  /** Whether somebody has allowed the call of `same` for all of the session. */
  granted: boolean;
  /** Files that are there by a `write`, with the turn that wrote them. */
  readonly files: Map<string, number>;
}

export interface Model {
  readonly sessions: ExpectedSession[];
  /** How many prompts there were. */
  prompts: number;
}

/** What the upstream answers; a name is matched whole, so that no two prompts mix. */
export const script = [
  {
    when: { last_user: '^say (?<name>\\S+)$' },
    reply: { text: 'Said {{match.name}}.' },
  },
  {
    when: { last_user: '^hold (?<name>\\S+)$' },
    reply: { text: 'Held {{match.name}} for a long, long time.', hold_after_chunks: 3 },
  },
  ...['run', 'free'].map((kind) => ({
    when: { last_user: `^${kind} (?<name>\\S+)$`, step: 0 },
    reply: { tool_calls: [effect('{{match.name}}-0')] },
  })),
  {
    when: { last_user: '^same ', step: 0 },
    reply: { tool_calls: [{ name: 'bash', arguments: { command: 'touch same.txt' } }] },
  },
  {
    when: { last_user: '^both (?<name>\\S+)$', step: 0 },
    reply: { tool_calls: [effect('{{match.name}}-0'), effect('{{match.name}}-1')] },
  },
  {
    when: { last_user: '^ask (?<name>\\S+)$', step: 0 },
    reply: {
      tool_calls: [
        {
          name: 'ask_user',
          arguments: { questions: [{ id: 'q', type: 'yes_no', text: '{{match.name}}?' }] },
        },
      ],
    },
  },
  {
    when: { last_user: '^write (?<name>\\S+)$', step: 0 },
    reply: {
      tool_calls: [
        { name: 'write', arguments: { file_path: '{{match.name}}.txt', content: '{{match.name}}' } },
      ],
    },
  },
  { when: { last_user: '^\\w+ (?<name>\\S+)$', step: 1 }, reply: { text: 'Done {{match.name}}.' } },
];

/** A line for each time that it runs: the proof that it ran once. */
function effect(name: string) {
  return {
    name: 'bash',
    arguments: { command: `echo ${name} >> effects.txt`, description: 'Leaves a mark' },
  };
}

/** Of each kind: the mode it is asked in, and how many questions come before its answer. */
export const kinds: Readonly<
  Record<Kind, { readonly mode: string; readonly calls: number; readonly waits: Status | null }>
> = {
  say: { mode: 'ask', calls: 0, waits: null },
  hold: { mode: 'ask', calls: 0, waits: 'running' },
  run: { mode: 'ask', calls: 1, waits: 'waiting_permission' },
  both: { mode: 'ask', calls: 2, waits: 'waiting_permission' },
  same: { mode: 'ask', calls: 1, waits: 'waiting_permission' },
  free: { mode: 'bypass', calls: 1, waits: null },
  ask: { mode: 'ask', calls: 1, waits: 'waiting_prompt' },
  write: { mode: 'accept_edits', calls: 1, waits: null },
};

export function runsOf(session: ExpectedSession): ExpectedRun[] {
  return session.passages.flatMap(({ run }) => (run ? [run] : []));
}

export const hasEnded = ({ status }: ExpectedRun): boolean =>
  status === 'completed' || status === 'failed' || status === 'interrupted';

/** Those that have not ended, the one at work first. */
export function activeRuns(session: ExpectedSession): ExpectedRun[] {
  return runsOf(session).filter((run) => !hasEnded(run));
}

export function sessionStatus(session: ExpectedSession): 'idle' | 'running' | 'waiting' {
  const active = activeRuns(session);
  if (active.some(({ status }) => status.startsWith('waiting'))) return 'waiting';
  return active.length > 0 ? 'running' : 'idle';
}

/** Lets everything happen that happens by itself: one run after the other, until one waits for somebody. */
export function settle(session: ExpectedSession): void {
  for (const run of activeRuns(session)) {
    run.begun = true;
    const { calls, waits } = kinds[run.kind];
    const isGranted = run.kind === 'same' && session.granted;
    if (waits !== null && !isGranted && (calls === 0 || run.allowed.length < calls)) {
      run.status = waits;
      return;
    }
    complete(session, run);
  }
}

/** The run comes to its end by itself. */
export function complete(session: ExpectedSession, run: ExpectedRun): void {
  while (run.allowed.length < kinds[run.kind].calls) run.allowed.push(true);
  if (run.kind === 'write') session.files.set(`${run.name}.txt`, run.turn);
  run.status = 'completed';
}

/** From the passage on nothing counts any more; with files, what was written since is gone. */
export function goBack(session: ExpectedSession, from: Passage, files: boolean): void {
  const at = session.passages.indexOf(from);
  for (const passage of session.passages.slice(at)) passage.reverted = true;
  const turn = Math.min(...session.passages.slice(at).map(({ run }) => run?.turn ?? 0));
  if (files) for (const [file, written] of session.files) if (written >= turn) session.files.delete(file);
}

/** What a branch has: the messages up to and with the named one, calls never without their results. */
export function branch(messages: readonly Said[], at: number): readonly Said[] {
  const calls = (said: Said | undefined) =>
    said?.role === 'assistant' && JSON.stringify(said.parts).includes('"tool_use"');
  if (!calls(messages[at])) return messages.slice(0, at + 1);
  return messages[at + 1]?.role === 'tool' ? messages.slice(0, at + 2) : messages.slice(0, at);
}

/** Each prompt with what followed it. */
export function passagesOf(messages: readonly Said[]): Passage[] {
  const starts = messages.flatMap(({ role }, index) => (role === 'user' ? [index] : []));
  return starts.map((start, index) => ({
    run: null,
    reverted: false,
    copied: messages.slice(start, starts[index + 1]),
  }));
}

/** What a run says and is told, message by message; those marked may be missing. */
export function storyOf(
  run: ExpectedRun,
): readonly { readonly role: string; readonly text: string; readonly mayMiss: boolean }[] {
  const { kind, name, status, begun } = run;
  const line = (role: string, text: string, mayMiss = false) => ({ role, text, mayMiss });
  const prompt = line('user', `${kind} ${name}`);
  if (!begun) return [prompt];
  const stopped = status === 'interrupted';
  if (kinds[kind].calls === 0)
    return [
      prompt,
      ...(status === 'completed'
        ? [
            line(
              'assistant',
              `${kind === 'say' ? 'Said' : 'Held'} ${name}${kind === 'say' ? '.' : ' for a long, long time.'}`,
            ),
          ]
        : []),
    ];
  const called = [prompt, line('assistant', '')];
  // A process that died before it could stop the calls leaves them without results.
  if (stopped) return [...called, line('tool', '', true)];
  return status === 'completed' ? [...called, line('tool', ''), line('assistant', `Done ${name}.`)] : called;
}
