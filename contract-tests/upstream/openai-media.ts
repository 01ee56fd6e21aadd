// OpenAI's images, speech and transcriptions: what a request must be, and how an answer looks; on Azure's paths too.
import type { IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';
import { azure } from './azure.ts';
import { type Answer, type Call, type Dialect, type Place, Refusal, sse } from './dialect.ts';
import { picture, sounds } from './media-files.ts';
import { checkedBody, ignoredFields, openAi, openAiErrorBody } from './openai.ts';
import type { DialectName, MediaTask, Prompt } from './prompt.ts';

/** Which of the three a path ends in asks for. */
export function openAiTask(path: string): MediaTask | undefined {
  if (path.endsWith('/images/generations')) return 'image';
  if (path.endsWith('/audio/speech')) return 'speech';
  return path.endsWith('/audio/transcriptions') ? 'transcription' : undefined;
}

export const openAiMedia = (task: MediaTask): Dialect => ({
  ...openAi,
  ...read('openai_media', task),
  errorFrame: (refusal) => sse(openAiErrorBody(refusal)),
});

export const azureMedia = (task: MediaTask): Dialect => ({ ...azure, ...read('azure_media', task) });

const readers = { image: readImage, speech: readSpeech, transcription: readTranscription };

function read(name: DialectName, task: MediaTask): Pick<Dialect, 'name' | 'read' | 'takesForm'> {
  return {
    name,
    ...(task === 'transcription' && { takesForm: true }),
    read: (body, headers, place) => readers[task](modelled(body, place), name, headers),
  };
}

/** A deployment is of one model, whatever the body says. */
function modelled(body: unknown, place: Place | null): unknown {
  if (place === null || typeof body !== 'object' || body === null) return body;
  return { ...body, model: place.model };
}

function promptOf(dialect: DialectName, task: MediaTask, model: string, text: string, system = ''): Prompt {
  const instructions = system === '' ? [] : [{ from: 'system' as const, text: system }];
  return {
    ...{ dialect, task, model, stream: false, tools: [] },
    entries: [...instructions, { from: 'user', text }],
  };
}

const imageRequest = z.strictObject({
  prompt: z.string().min(1).max(32_000),
  model: z.string().min(1).default('gpt-image-1'),
  n: z.int().min(1).max(10).default(1),
  size: z
    .string()
    .regex(/^(auto|\d{2,4}x\d{2,4})$/)
    .optional(),
  response_format: z.enum(['url', 'b64_json']).optional(),
  output_format: z.enum(['png', 'jpeg', 'webp']).optional(),
  ...ignoredFields([
    'quality',
    'style',
    'background',
    'moderation',
    'output_compression',
    'user',
    'safety_identifier',
    'seed',
  ]),
});

const gptSizes = ['auto', '1024x1024', '1536x1024', '1024x1536'];

/** The newer models always answer with the picture itself, and know no word for it; the older ones name its place. */
function readImage(body: unknown, dialect: DialectName, headers: IncomingHttpHeaders): Call {
  const asked = checkedBody(imageRequest, body);
  const { model, n, size = 'auto', response_format } = asked;
  const newer = model.startsWith('gpt-image-');
  if (newer && response_format !== undefined)
    throw new Refusal(400, "Unknown parameter: 'response_format'.", {
      code: 'unknown_parameter',
      param: 'response_format',
    });
  if (newer && !gptSizes.includes(size))
    throw new Refusal(400, `Invalid size '${size}'. Supported sizes are ${gptSizes.join(', ')}.`, {
      code: 'invalid_value',
      param: 'size',
    });
  const inside = newer || response_format === 'b64_json';
  return {
    prompt: promptOf(dialect, 'image', model, asked.prompt),
    whole: (answer) => {
      refuseRefused(answer);
      const one = inside ? { b64_json: fileOf(answer) } : { url: placeOf(answer, headers) };
      const usage = imageUsage(answer);
      return { created: now(), data: Array(n).fill(one), ...(newer && { output_format: 'png', usage }) };
    },
    frames: () => [],
  };
}

function fileOf(answer: Answer): string {
  return (answer.file ?? picture).toString('base64');
}

/** The bytes are in the address, so that whoever asks for it needs no memory here. */
function placeOf(answer: Answer, { host }: IncomingHttpHeaders): string {
  return `http://${host}/files/${(answer.file ?? picture).toString('base64url')}`;
}

function imageUsage({ usage: { input, output } }: Answer) {
  const input_tokens_details = { text_tokens: input, image_tokens: 0 };
  return {
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
    input_tokens_details,
  };
}

function refuseRefused({ stopReason }: Answer): void {
  if (stopReason !== 'refusal') return;
  throw new Refusal(400, 'Your request was rejected by the safety system.', {
    type: 'image_generation_user_error',
    code: 'moderation_blocked',
  });
}

const speechRequest = z.strictObject({
  model: z.string().min(1),
  input: z.string().min(1).max(4096),
  voice: z.string().min(1),
  instructions: z.string().optional(),
  response_format: z.enum(['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm']).default('mp3'),
  speed: z.number().min(0.25).max(4).optional(),
});

function readSpeech(body: unknown, dialect: DialectName): Call {
  const { model, input, instructions, response_format } = checkedBody(speechRequest, body);
  return {
    prompt: promptOf(dialect, 'speech', model, input, instructions),
    whole: () => null,
    file: (answer) => {
      const usual = sounds[response_format] ?? { type: 'audio/mpeg', bytes: Buffer.alloc(0) };
      return { type: usual.type, bytes: answer.file ?? usual.bytes };
    },
    frames: () => [],
  };
}

/** A file of a form, as it was sent. */
export interface FormFile {
  readonly name: string;
  readonly type: string;
  readonly bytes: Buffer;
}

const transcriptionRequest = z.strictObject({
  file: z.custom<FormFile>((value) => typeof value === 'object' && value !== null && 'bytes' in value, {
    message: 'a file is required',
  }),
  model: z.string().min(1),
  language: z
    .string()
    .regex(/^[a-z]{2,3}$/)
    .optional(),
  prompt: z.string().optional(),
  response_format: z.enum(['json', 'verbose_json']).default('json'),
  ...ignoredFields(['temperature', 'timestamp_granularities[]', 'include[]', 'chunking_strategy']),
});

const audioNames = /\.(flac|mp3|mp4|mpeg|mpga|m4a|ogg|wav|webm)$/i;

function readTranscription(body: unknown, dialect: DialectName): Call {
  const { file, model, language, prompt, response_format } = checkedBody(transcriptionRequest, body);
  if (!audioNames.test(file.name))
    throw new Refusal(400, `Invalid file format: ${file.name}.`, { param: 'file', code: 'invalid_value' });
  const newer = model !== 'whisper-1';
  if (newer && response_format === 'verbose_json')
    throw new Refusal(400, `response_format 'verbose_json' is not compatible with model '${model}'.`, {
      param: 'response_format',
      code: 'unsupported_value',
    });
  const verbose = response_format === 'verbose_json';
  return {
    prompt: promptOf(dialect, 'transcription', model, `${file.name} ${file.bytes.length}`, prompt),
    whole: (answer) => (verbose ? verboseAnswer(answer, language) : plainAnswer(answer, newer)),
    frames: () => [],
  };
}

const seconds = 2;

function plainAnswer({ text, usage: { input, output } }: Answer, newer: boolean): unknown {
  const input_token_details = { text_tokens: 0, audio_tokens: input };
  const counted = {
    type: 'tokens',
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
  };
  return { text, usage: newer ? { ...counted, input_token_details } : { type: 'duration', seconds } };
}

function verboseAnswer({ text }: Answer, language = 'en'): unknown {
  const segment = {
    ...{ id: 0, seek: 0, start: 0, end: seconds, text, tokens: [1], temperature: 0 },
    ...{ avg_logprob: -0.2, compression_ratio: 1, no_speech_prob: 0.01 },
  };
  const names: Record<string, string> = { en: 'english', de: 'german' };
  return {
    ...{ task: 'transcribe', language: names[language] ?? language, duration: seconds, text },
    segments: [segment],
    usage: { type: 'duration', seconds },
  };
}

function now(): number {
  return Math.floor(Date.now() / 1000);
}
