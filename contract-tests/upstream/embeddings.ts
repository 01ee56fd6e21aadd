// Vectors of texts, in OpenAI's, Azure's, Gemini's and Vertex AI's words: near for texts that share words, and always the same.
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { azure } from './azure.ts';
import { type Answer, type Call, type Dialect, type Place, Refusal } from './dialect.ts';
import { gemini, vertexGemini } from './gemini.ts';
import { checkedBody, openAi, openAiErrorBody } from './openai.ts';
import type { DialectName } from './prompt.ts';

/** The methods of Google that answer with vectors. */
export const embeddingMethods = ['embedContent', 'batchEmbedContents', 'predict'] as const;

export type EmbeddingMethod = (typeof embeddingMethods)[number];

export const openAiEmbeddings: Dialect = {
  ...openAi,
  name: 'openai_media',
  errorFrame: (refusal) => JSON.stringify(openAiErrorBody(refusal)),
  read: (body, _headers, place) => readOpenAi(body, 'openai_media', place),
};

export const azureEmbeddings: Dialect = {
  ...azure,
  name: 'azure_media',
  read: (body, _headers, place) => readOpenAi(body, 'azure_media', place),
};

export const geminiEmbeddings = (method: EmbeddingMethod): Dialect => ({
  ...gemini,
  read: (body, _headers, place) => readGemini(body, method, place),
});

export const vertexEmbeddings = (method: EmbeddingMethod): Dialect => ({
  ...vertexGemini,
  read: (body, _headers, place) => readVertex(body, method, place),
});

const usualDimensions = 64;

/** Each word turns the vector a little its own way. The length is not 1: not every vendor sees to that. */
function vectorOf(text: string, dimensions = usualDimensions): number[] {
  const sum = Array<number>(dimensions).fill(0);
  for (const word of ['', ...(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [])]) {
    const hash = createHash('sha512').update(word).digest();
    for (let at = 0; at < dimensions; at += 1)
      sum[at] = (sum[at] ?? 0) + ((hash[at % 64] ?? 0) - 127.5) / 128;
  }
  return sum;
}

const dimensions = z.int().min(1).max(4096).optional();
const openAiRequest = z.strictObject({
  model: z.string().min(1).default('text-embedding-3-small'),
  input: z.union([z.string().min(1), z.array(z.string().min(1)).min(1).max(2048)]),
  encoding_format: z.enum(['float', 'base64']).default('float'),
  dimensions,
  user: z.string().optional(),
});

function readOpenAi(body: unknown, name: DialectName, place: Place | null): Call {
  const asked = checkedBody(openAiRequest, body);
  const { encoding_format, model } = asked;
  const texts = [asked.input].flat();
  return {
    prompt: promptOf(name, place?.model ?? model, texts),
    whole: ({ usage }) => ({
      object: 'list',
      data: texts.map((text, index) => ({
        object: 'embedding',
        index,
        embedding: encoded(vectorOf(text, asked.dimensions), encoding_format),
      })),
      model,
      usage: { prompt_tokens: usage.input, total_tokens: usage.input },
    }),
    frames: () => [],
  };
}

function encoded(vector: readonly number[], format: 'float' | 'base64'): readonly number[] | string {
  return format === 'float' ? vector : Buffer.from(Float32Array.from(vector).buffer).toString('base64');
}

const content = z.strictObject({
  role: z.string().optional(),
  parts: z.array(z.strictObject({ text: z.string() })).min(1),
});
const geminiRequest = z.strictObject({
  model: z.string().optional(),
  content,
  outputDimensionality: dimensions,
  taskType: z.string().optional(),
});

function readGemini(body: unknown, method: EmbeddingMethod, place: Place | null): Call {
  const requests =
    method === 'batchEmbedContents'
      ? googleBody(z.strictObject({ requests: z.array(geminiRequest).min(1).max(100) }), body).requests
      : [googleBody(geminiRequest, body)];
  const asked = requests.map((one) => ({
    text: one.content.parts.map(({ text }) => text).join(''),
    size: one.outputDimensionality,
  }));
  const vectors = asked.map(({ text, size }) => ({ values: vectorOf(text, size) }));
  return {
    prompt: promptOf(
      'gemini',
      place?.model ?? '',
      asked.map(({ text }) => text),
    ),
    whole: () => (method === 'batchEmbedContents' ? { embeddings: vectors } : { embedding: vectors[0] }),
    frames: () => [],
  };
}

const vertexRequest = z.strictObject({
  instances: z
    .array(
      z.strictObject({ content: z.string(), task_type: z.string().optional(), title: z.string().optional() }),
    )
    .min(1)
    .max(250),
  parameters: z
    .strictObject({ outputDimensionality: dimensions, autoTruncate: z.boolean().optional() })
    .optional(),
});

function readVertex(body: unknown, method: EmbeddingMethod, place: Place | null): Call {
  if (method !== 'predict') throw new Refusal(404, `The method ${method} is not played here.`);
  const { instances, parameters } = googleBody(vertexRequest, body);
  const texts = instances.map(({ content: text }) => text);
  return {
    prompt: promptOf('vertex_gemini', place?.model ?? '', texts),
    whole: ({ usage }: Answer) => ({
      predictions: texts.map((text, index) => ({
        embeddings: {
          values: vectorOf(text, parameters?.outputDimensionality),
          // As much as was used, on the first of them.
          statistics: { token_count: index === 0 ? usage.input : 0, truncated: false },
        },
      })),
    }),
    frames: () => [],
  };
}

function googleBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new Refusal(400, `Invalid JSON payload received. ${issue?.path.join('.')}: ${issue?.message}`);
}

function promptOf(dialect: DialectName, model: string, texts: readonly string[]) {
  const entries = [{ from: 'user' as const, text: texts.join('\n') }];
  return { dialect, task: 'embedding' as const, model, stream: false, tools: [], entries };
}
