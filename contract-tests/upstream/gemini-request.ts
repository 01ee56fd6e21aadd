// Google's generateContent: what its request must be, and what a script sees of it.
import type { GenerateContentConfig, GenerationConfig } from '@google/genai';
import { z } from 'zod';
import { deepestIssue, ignored, type Place, Refusal } from './dialect.ts';
import type { DialectName, Entry, MediaTask, Prompt } from './prompt.ts';

// A part is told by the one field that it holds; strict, because the vendor refuses names that it does not know.
const extras = { thought: z.boolean().optional(), thoughtSignature: z.string().optional() };
const base64 = z.string().regex(/^[A-Za-z0-9+/_-]+=*$/, 'Base64 decoding failed');
const text = z.strictObject({ text: z.string(), ...extras });
const inlineData = z.strictObject({ mimeType: z.string().min(1), data: base64, displayName: ignored });
const functionCall = z.strictObject({
  id: z.string().optional(),
  name: z.string().min(1),
  args: z.record(z.string(), z.unknown()).optional(),
});
const functionResponse = z.strictObject({
  id: z.string().optional(),
  name: z.string().min(1),
  response: z.record(z.string(), z.unknown()),
  parts: ignored,
});
const part = z.union([
  text,
  z.strictObject({ inlineData, ...extras }),
  z.strictObject({ fileData: z.looseObject({ fileUri: z.string() }), ...extras }),
  z.strictObject({ functionCall, ...extras }),
  z.strictObject({ functionResponse, ...extras }),
]);
const content = z.strictObject({ role: z.enum(['user', 'model']).optional(), parts: z.array(part).min(1) });

const declaration = z.strictObject({
  name: z.string().regex(/^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/),
  description: z.string(),
  parameters: ignored,
  parametersJsonSchema: z.looseObject({ type: z.literal('object') }).optional(),
  behavior: ignored,
});
/** A name that the vendor's own types do not have stops this from compiling. */
type Published = Partial<Record<keyof GenerationConfig | keyof GenerateContentConfig, z.ZodType>>;

const unread = [
  'audioTimestamp',
  'logprobs',
  'mediaResolution',
  'responseFormat',
  'responseJsonSchema',
  'responseLogprobs',
  'responseMimeType',
  'responseSchema',
  'routingConfig',
] as const satisfies readonly (keyof Published)[];

const generationConfig = z.strictObject({
  maxOutputTokens: z.int().min(1).optional(),
  temperature: z.number().min(0).max(2).optional(),
  topP: z.number().min(0).max(1).optional(),
  topK: z.number().min(1).optional(),
  frequencyPenalty: z.number().min(-2).max(2).optional(),
  presencePenalty: z.number().min(-2).max(2).optional(),
  stopSequences: z.array(z.string()).max(5).optional(),
  seed: z.int().optional(),
  candidateCount: z.literal(1).optional(),
  thinkingConfig: z
    .strictObject({
      includeThoughts: z.boolean().optional(),
      thinkingBudget: z.int().min(-1).optional(),
      thinkingLevel: z
        .string()
        .regex(/^(minimal|low|medium|high|xhigh)$/i)
        .optional(),
    })
    .optional(),
  ...passedOver(...unread),
  responseModalities: z.array(z.enum(['TEXT', 'IMAGE', 'AUDIO'])).optional(),
  imageConfig: z
    .strictObject({
      aspectRatio: z
        .string()
        .regex(/^\d+:\d+$/)
        .optional(),
      imageSize: ignored,
    })
    .optional(),
  speechConfig: z
    .strictObject({
      voiceConfig: z
        .strictObject({ prebuiltVoiceConfig: z.strictObject({ voiceName: z.string() }) })
        .optional(),
      multiSpeakerVoiceConfig: ignored,
      languageCode: z.string().optional(),
    })
    .optional(),
  audioTranscriptionConfig: z
    .strictObject({
      languageCodes: z.array(z.string()).optional(),
      ...passedOver('customVocabulary wordTimestamp diarization mode'),
    })
    .optional(),
} satisfies Published);
const requestSchema = z.strictObject({
  contents: z.array(content).min(1, 'contents is not specified'),
  systemInstruction: z.strictObject({ role: z.string().optional(), parts: z.array(text).min(1) }).optional(),
  tools: z.array(z.looseObject({ functionDeclarations: z.array(declaration).optional() })).optional(),
  toolConfig: z.looseObject({}).optional(),
  generationConfig: generationConfig.optional(),
  ...passedOver('cachedContent labels model safetySettings serviceTier store'),
});

type Content = z.infer<typeof content>;
type Part = z.infer<typeof part>;

export interface GeminiRequest {
  readonly prompt: Prompt;
  /** Thoughts are shown only to those who ask for them. */
  readonly includeThoughts: boolean;
}

/** Throws a `Refusal` with the vendor's words where the vendor would answer 400. */
export function readGeminiRequest(body: unknown, dialect: DialectName, place: Place): GeminiRequest {
  const parsed = requestSchema.safeParse(body);
  if (!parsed.success) throw refusalOf(parsed.error.issues);
  const { contents, systemInstruction, tools, generationConfig: generation } = parsed.data;
  refuseWrongTurns(contents, place.model);
  const task = taskOf(generation, contents, place);
  const declared = (tools ?? []).flatMap(({ functionDeclarations }) => functionDeclarations ?? []);
  const system: Entry[] = systemInstruction
    ? [{ from: 'system', text: textOf(systemInstruction.parts) }]
    : [];
  return {
    prompt: {
      dialect,
      model: place.model,
      stream: place.stream,
      ...(task && { task }),
      tools: declared.map(({ name }) => name),
      entries: [...system, ...contents.flatMap(entriesOf)],
    },
    includeThoughts: generation?.thinkingConfig?.includeThoughts ?? false,
  };
}

/** What is asked for, besides words: said in the settings, or by what kind of model is asked about a sound. */
function taskOf(
  generation: z.infer<typeof generationConfig> | undefined,
  contents: readonly Content[],
  { model }: Place,
): MediaTask | undefined {
  const modalities = generation?.responseModalities ?? [];
  if (modalities.includes('IMAGE')) return 'image';
  if (modalities.includes('AUDIO')) return 'speech';
  if (!model.includes('transcribe')) return undefined;
  const heard = contents.some(({ parts }) =>
    parts.some((it) => 'inlineData' in it && it.inlineData.mimeType.startsWith('audio/')),
  );
  if (!heard) throw new Refusal(400, `The model ${model} transcribes sound, and was given none.`);
  return 'transcription';
}

function passedOver(...names: string[]): Record<string, typeof ignored> {
  return Object.fromEntries(names.flatMap((some) => some.split(' ')).map((name) => [name, ignored]));
}

function refusalOf(issues: readonly z.core.$ZodIssue[]): Refusal {
  const [first] = issues;
  const at = (path: readonly PropertyKey[]) => path.map(String).join('.');
  if (first?.code === 'unrecognized_keys')
    return new Refusal(
      400,
      `Invalid JSON payload received. Unknown name "${first.keys[0]}" at '${at(first.path)}': Cannot find field.`,
    );
  const { path, message } = deepestIssue(issues);
  return new Refusal(400, `Invalid value at '${at(path)}': ${message}`);
}

function refuseWrongTurns(contents: readonly Content[], model: string): void {
  contents.forEach((turn, at) => {
    const calls = turn.parts.filter((it) => 'functionCall' in it);
    const before = contents[at - 1];
    const asked = (before?.parts ?? []).filter((it) => 'functionCall' in it).length;
    const answered = turn.parts.filter((it) => 'functionResponse' in it).length;
    if (asked !== answered) throw new Refusal(400, wrongCount);
    if (calls.length === 0) return;
    if (at === contents.length - 1) throw new Refusal(400, wrongCount);
    if (before?.role === 'model' || before === undefined) throw new Refusal(400, wrongOrder);
    refuseUnsigned(calls, at, contents, model);
  });
}

const wrongCount =
  'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.';
const wrongOrder =
  'Please ensure that function call turn comes immediately after a user turn or after a function response turn.';

/** From its third generation on, the vendor wants its signatures back on the calls since the user last spoke. */
function refuseUnsigned(
  calls: readonly Part[],
  at: number,
  contents: readonly Content[],
  model: string,
): void {
  const spoke = contents.findLastIndex(
    (turn) => turn.role !== 'model' && turn.parts.some((it) => 'text' in it),
  );
  if (!/gemini-[3-9]/.test(model) || at < spoke || calls[0]?.thoughtSignature !== undefined) return;
  throw new Refusal(
    400,
    `Function call is missing a thought_signature in functionCall parts. Position ${at + 1}.`,
  );
}

function entriesOf({ role, parts }: Content): Entry[] {
  const said = textOf(parts);
  if (role === 'model') return [{ from: 'assistant', text: said }];
  const results = parts.flatMap((it): Entry[] =>
    'functionResponse' in it ? [{ from: 'tool', text: resultOf(it.functionResponse.response) }] : [],
  );
  const spoke = parts.some((it) => !('functionResponse' in it));
  return spoke ? [...results, { from: 'user', text: said }] : results;
}

/** By the vendor's convention the result is under one of these names; else the whole object is. */
function resultOf(response: Record<string, unknown>): string {
  const result = response.content ?? response.output ?? response.result ?? response.error ?? response;
  return typeof result === 'string' ? result : JSON.stringify(result);
}

function textOf(parts: readonly Part[]): string {
  return parts.flatMap((it) => ('text' in it && it.thought !== true ? [it.text] : [])).join('\n');
}
