/** What a hook may say about a tool call, how its output is read, and what many hooks say together. */
import { z } from 'zod';

/** What one hook, or all of them together, have to say. */
export interface Opinion {
  /** `ask` only takes back what another hook allows: the call is then decided as if there were no hook. */
  readonly decision: 'deny' | 'ask' | 'allow' | null;
  /** Whether the whole run is to stop. */
  readonly halt: boolean;
  readonly reason: string;
  /** For the model, beside the result. */
  readonly context: string;
  /** Members to put in place of those of the call's input. */
  readonly updatedInput: Readonly<Record<string, unknown>>;
}

export const noOpinion: Opinion = { decision: null, halt: false, reason: '', context: '', updatedInput: {} };

/** A reader needs a sentence or two; a whole file is no reason. */
export const longestReason = 4000;
const longestContext = 30_000;

const text = z.string().nullish();
const input = z.record(z.string(), z.unknown()).nullish();

/** The two forms that hooks in use speak; what else such an object holds is not ours to judge. */
const outputSchema = z.looseObject({
  version: z.literal(1).nullish(),
  decision: z.enum(['allow', 'deny']).nullish(),
  halt: z.boolean().nullish(),
  reason: text,
  context: z.union([z.string(), z.array(z.string())]).nullish(),
  updated_input: input,
  hookSpecificOutput: z
    .looseObject({
      permissionDecision: z.enum(['allow', 'deny', 'ask']).nullish(),
      permissionDecisionReason: text,
      updatedInput: input,
      additionalContext: text,
    })
    .nullish(),
});

/**
 * Reads the standard output of a hook that ended well. Output that is no JSON object says nothing, but one that begins
 * like an object and is broken is an error: it may have been meant as a refusal.
 * @throws SyntaxError that says what is wrong.
 */
export function readOpinion(stdout: string): Opinion {
  const written = stdout.trim();
  if (!/^[{[]/.test(written)) return noOpinion;
  const parsed = outputSchema.safeParse(parseJson(written));
  if (!parsed.success) throw new SyntaxError(complaint(parsed.error));
  const { data } = parsed;
  const specific = data.hookSpecificOutput;
  return compose([
    {
      decision: data.decision ?? null,
      halt: data.halt ?? false,
      reason: data.reason ?? '',
      context: [data.context ?? []].flat().filter(Boolean).join('\n'),
      updatedInput: data.updated_input ?? {},
    },
    {
      decision: specific?.permissionDecision ?? null,
      halt: false,
      reason: specific?.permissionDecisionReason ?? '',
      context: specific?.additionalContext ?? '',
      updatedInput: specific?.updatedInput ?? {},
    },
  ]);
}

function complaint({ issues }: z.ZodError): string {
  const complaints = issues.map(({ path, message }) => [...path, message].join(': '));
  return clip(complaints.join('; '), longestReason);
}

/** In the order given: a halt stays, a denial beats all else, reasons and contexts add up, later input goes over earlier. */
export function compose(opinions: readonly Opinion[]): Opinion {
  const halt = opinions.some((opinion) => opinion.halt);
  const decision = severities.find((one) => opinions.some((opinion) => opinion.decision === one)) ?? null;
  const decisive = opinions.filter((opinion) => (halt ? opinion.halt : opinion.decision === decision));
  return {
    decision,
    halt,
    reason: joined(decisive, 'reason', longestReason),
    context: joined(opinions, 'context', longestContext),
    updatedInput:
      halt || decision === 'deny' ? {} : Object.assign({}, ...opinions.map((one) => one.updatedInput)),
  };
}

const severities = ['deny', 'ask', 'allow'] as const;

function joined(opinions: readonly Opinion[], part: 'reason' | 'context', longest: number): string {
  const texts = opinions.map((opinion) => opinion[part].trim()).filter(Boolean);
  return clip(texts.join('\n'), longest);
}

/** As much of a text as may be shown; a database takes neither NUL nor half a surrogate pair. */
export function clip(text: string, longest: number): string {
  const cut = text.length > longest ? `${text.slice(0, longest)}…` : text;
  return cut.replaceAll('\u0000', '\ufffd').toWellFormed();
}

function parseJson(written: string): unknown {
  try {
    return JSON.parse(written);
  } catch {
    // The parser's own message would quote the output, and with it the call's input.
    throw new SyntaxError('it begins like JSON and is none');
  }
}
