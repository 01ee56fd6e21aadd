// Google's Interactions, as far as they transcribe: a sound goes in, and its words come back as a step of the model.
import { z } from 'zod';
import { bearer, type Call, type Dialect, deepestIssue, newId, Refusal } from './dialect.ts';
import { gemini } from './gemini.ts';
import type { Prompt } from './prompt.ts';

export const geminiInteractions: Dialect = {
  ...gemini,
  apiKey: (headers) => gemini.apiKey(headers) ?? bearer(headers),
  read,
};

const request = z.strictObject({
  model: z.string().min(1),
  input: z
    .array(
      z.strictObject({
        type: z.literal('audio'),
        data: z.base64().min(4),
        mime_type: z.string().regex(/^audio\//),
      }),
    )
    .min(1),
  generation_config: z
    .strictObject({
      transcription_config: z
        .strictObject({
          language_codes: z.array(z.string()).optional(),
          custom_vocabulary: z.array(z.string()).optional(),
          mode: z.looseObject({ type: z.string() }).optional(),
        })
        .optional(),
    })
    .optional(),
  store: z.boolean().optional(),
});

function read(body: unknown): Call {
  const parsed = request.safeParse(body);
  if (!parsed.success) {
    const { path, message } = deepestIssue(parsed.error.issues);
    throw new Refusal(400, `Invalid value at '${path.map(String).join('.')}': ${message}`);
  }
  const { model, input } = parsed.data;
  const size = input.reduce((sum, { data }) => sum + Buffer.from(data, 'base64').length, 0);
  const prompt: Prompt = {
    ...{ dialect: 'gemini', task: 'transcription', model, stream: false, tools: [] },
    entries: [{ from: 'user', text: `${input[0]?.mime_type} ${size}` }],
  };
  return {
    prompt,
    whole: ({ text, usage: { input: heard, output } }) => ({
      ...{ id: newId('int_', 20), object: 'interaction', model, status: 'completed' },
      ...{ created: new Date().toISOString(), updated: new Date().toISOString() },
      steps: [{ type: 'model_output', content: [{ type: 'text', text }] }],
      usage: {
        total_input_tokens: heard,
        input_tokens_by_modality: [{ modality: 'audio', tokens: heard }],
        total_output_tokens: output,
        total_tokens: heard + output,
      },
    }),
    frames: () => [],
  };
}
