/** What a client may expect of sessions and their runs: the state machine of runs, as small as it can be said. */

/** What a prompt makes the scripted model do; see `script`. */
export type Kind = 'say' | 'hold' | 'run' | 'both' | 'same' | 'free' | 'ask' | 'write' | 'edit';
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
  /** How many of its calls were decided when everything had settled: no end of a server cuts those off. */
  settledCalls: number;
  /** The calls that an end of their server may have met at work. */
  readonly cutCalls: Set<number>;
  /** How many ends of servers may have met the model's answer, or the step that asks for it. */
  ends: number;
  /** What its question came to, as the model is told it; null where it has asked none. */
  told: string | null;
}

/** A file that was there before; its edits put a word before the end each. */
export interface EditedFile {
  readonly name: string;
  edits: readonly { readonly run: ExpectedRun; readonly word: string }[];
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
  edited: EditedFile | null;
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
  {
    when: { last_user: '^edit \\S+@(?<file>\\S+)$', step: 0 },
    reply: { tool_calls: [{ name: 'view', arguments: { file_path: '{{match.file}}' } }] },
  },
  {
    when: { last_user: '^edit (?<name>\\S+)@(?<file>\\S+)$', step: 1 },
    reply: {
      tool_calls: [
        {
          name: 'edit',
          arguments: { file_path: '{{match.file}}', old_string: 'end', new_string: '{{match.name}} end' },
        },
      ],
    },
  },
  { when: { last_user: '^edit (?<name>\\S+)$', step: 2 }, reply: { text: 'Done {{match.name}}.' } },
  { when: { last_user: '^\\w+ (?<name>\\S+)$', step: 1 }, reply: { text: 'Done {{match.name}}.' } },
];

/** Around the words of its edits. Ends of lines and letters of two bytes have to stay as they are, too. */
export const editedText = (words: string) => `Grüße, wie sie waren.\r\n\r\n${words}end`;

/** A line for each time that it runs: the proof that it ran once. */
function effect(name: string) {
  return {
    name: 'bash',
    arguments: { command: `echo ${name} >> effects.txt`, description: 'Leaves a mark' },
  };
}

interface KindFacts {
  readonly mode: string;
  readonly calls: number;
  /** In how many answers of the model its calls come. */
  readonly steps: number;
  /** What it does before each of its calls, or before its answer; null where nobody is waited for. */
  readonly waits: Status | null;
}

export const kinds: Readonly<Record<Kind, KindFacts>> = {
  say: { mode: 'ask', calls: 0, steps: 0, waits: null },
  hold: { mode: 'ask', calls: 0, steps: 0, waits: 'running' },
  run: { mode: 'ask', calls: 1, steps: 1, waits: 'waiting_permission' },
  both: { mode: 'ask', calls: 2, steps: 1, waits: 'waiting_permission' },
  same: { mode: 'ask', calls: 1, steps: 1, waits: 'waiting_permission' },
  free: { mode: 'bypass', calls: 1, steps: 1, waits: null },
  ask: { mode: 'ask', calls: 1, steps: 1, waits: 'waiting_prompt' },
  write: { mode: 'accept_edits', calls: 1, steps: 1, waits: null },
  edit: { mode: 'accept_edits', calls: 2, steps: 2, waits: null },
};

export function newSession(id: string, copied: readonly Said[] = []): ExpectedSession {
  return {
    ...{ id, passages: passagesOf(copied), granted: false, files: new Map(), edited: null },
    // Turns of its own come after those that were copied.
    turns: copied.length,
  };
}

export function newRun(given: Pick<ExpectedRun, 'id' | 'name' | 'kind' | 'turn'>): ExpectedRun {
  return {
    ...given,
    ...{ status: 'queued', begun: false, allowed: [], settledCalls: 0 },
    ...{ cutCalls: new Set(), ends: 0, told: null },
  };
}

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

/** Everything that has happened by now is stored. */
export function noteSettled({ sessions }: Model): void {
  for (const session of sessions) for (const run of runsOf(session)) run.settledCalls = run.allowed.length;
}

/** Settles beside the end of a server, which may have met whatever was not settled before. */
export function settleCut(model: Model): void {
  cutHeld(model);
  for (const session of model.sessions) {
    const before = activeRuns(session).filter(({ kind, begun }) => kind !== 'hold' || !begun);
    const waited = new Set(before.filter(isWaiting));
    settle(session);
    for (const run of before) {
      if (!run.begun || (waited.has(run) && run.allowed.length === run.settledCalls)) continue;
      run.ends += 1;
      for (let call = run.settledCalls; call < run.allowed.length; call += 1) run.cutCalls.add(call);
    }
  }
}

/** An end of a server where everything has settled meets nothing but answers that are being held. */
export function cutHeld({ sessions }: Model): void {
  for (const session of sessions) {
    const [run] = activeRuns(session);
    if (run?.kind === 'hold' && run.begun) run.ends += 1;
  }
}

export function isWaiting(run: ExpectedRun | undefined): boolean {
  return run?.status === 'waiting_permission' || run?.status === 'waiting_prompt';
}

/** The run comes to its end by itself. */
export function complete(session: ExpectedSession, run: ExpectedRun): void {
  while (run.allowed.length < kinds[run.kind].calls) run.allowed.push(true);
  if (run.kind === 'write') session.files.set(`${run.name}.txt`, run.turn);
  if (run.kind === 'edit' && session.edited)
    session.edited.edits = [...session.edited.edits, { run, word: run.name.split('@')[0] ?? '' }];
  run.status = 'completed';
}

/** From the passage on nothing counts any more; with files, what was written since is gone. */
export function goBack(session: ExpectedSession, from: Passage, files: boolean): void {
  const at = session.passages.indexOf(from);
  for (const passage of session.passages.slice(at)) passage.reverted = true;
  const turn = Math.min(...session.passages.slice(at).map(({ run }) => run?.turn ?? 0));
  if (!files) return;
  for (const [file, written] of session.files) if (written >= turn) session.files.delete(file);
  if (session.edited) session.edited.edits = session.edited.edits.filter(({ run }) => run.turn < turn);
}

/** What a branch has: the messages up to and with the named one, calls with their results, and none that are at work. */
export function branch(
  messages: readonly (Said & { readonly run_id: string | null })[],
  at: number,
  atWork: string | undefined,
): readonly Said[] {
  const calls = (index: number) =>
    messages[index]?.role === 'assistant' && JSON.stringify(messages[index].parts).includes('"tool_use"');
  const isAnswered = (index: number) => messages[index + 1]?.role === 'tool';
  return messages
    .slice(0, at + (calls(at) && isAnswered(at) ? 2 : 1))
    .filter(({ run_id }, index) => run_id !== atWork || !calls(index) || isAnswered(index));
}

/** Each prompt with what followed it. */
function passagesOf(messages: readonly Said[]): Passage[] {
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
  if (status !== 'completed') return called;
  const steps = Array.from({ length: kinds[kind].steps }, () => [line('assistant', ''), line('tool', '')]);
  return [prompt, ...steps.flat(), line('assistant', `Done ${name}.`)];
}
