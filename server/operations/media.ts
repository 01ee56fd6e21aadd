/** Pictures, speech, and the words of a sound: one call of a model each, of which nothing is kept but what it used. */
import type { Usage } from '../contract/api.ts';
import type {
  Call,
  Handler,
  MediaCall,
  MediaChoice,
  MediaFile,
  MediaKind,
  MediaModels,
  Services,
  SpentByCall,
} from '../handler.ts';
import { soundFormats, soundTypeOf } from '../handler.ts';
import { Problem } from '../problem.ts';
import { asker, askerIn } from './asked-session.ts';
import { quotaNotice } from './quota-notice.ts';

export const generateImage: Handler<'generateImage'> = async (call, services) => {
  const { prompt, provider, model, size, aspect_ratio } = call.body;
  const asked = await ask({ kind: 'image', choice: { provider, model }, call, services }, (maker, told) =>
    maker.ask(
      {
        prompt,
        // The contract holds both to these forms.
        size: size as `${number}x${number}` | undefined,
        aspectRatio: aspect_ratio as `${number}:${number}` | undefined,
      },
      told,
    ),
  );
  const { answer, headers, told } = asked;
  return { status: 200, headers, body: { ...told, images: answer.images.map(contentOf) } };
};

export const synthesizeSpeech: Handler<'synthesizeSpeech'> = async (call, services) => {
  const { text, provider, model, voice, format, language, instructions } = call.body;
  const choice = { provider, model, voice, format };
  const asked = await ask({ kind: 'speech', choice, call, services }, (speaker, told) =>
    speaker.ask({ text, language, instructions }, told),
  );
  const { answer, headers, told } = asked;
  return { status: 200, headers, body: { ...told, audio: contentOf(answer.sound) } };
};

export const transcribeAudio: Handler<'transcribeAudio'> = async (call, services) => {
  const { provider, model, language } = call.body;
  const audio = await soundOf(call.body);
  if (soundTypeOf(audio) === null)
    throw new Problem(
      'unsupported_media_type',
      `The bytes are no sound that is known here; send ${soundFormats}.`,
    );
  const choice = { provider, model, language };
  const asked = await ask({ kind: 'transcription', choice, call, services }, (listener, told) =>
    listener.ask({ audio }, told),
  );
  const { answer, headers, told } = asked;
  const segments = answer.segments.map(({ text, startSeconds, endSeconds }) => ({
    ...{ text, start_seconds: startSeconds, end_seconds: endSeconds },
  }));
  const { text, language: heard, durationSeconds: duration_seconds } = answer;
  return { status: 200, headers, body: { ...told, text, language: heard, duration_seconds, segments } };
};

/** As much as vendors take. What comes in Base64 the contract bounds. */
const mostSoundBytes = 25 * 1024 * 1024;

async function soundOf(body: Call<'transcribeAudio'>['body']): Promise<Buffer> {
  if ('audio' in body) return Buffer.from(body.audio, 'base64');
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of body.file.content) {
    size += piece.length;
    if (size > mostSoundBytes)
      throw new Problem('body_too_large', `A sound may have at most ${mostSoundBytes} bytes.`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

interface Asking<Kind extends MediaKind> {
  readonly kind: Kind;
  readonly choice: MediaChoice;
  readonly call: Pick<
    Call<'generateImage' | 'synthesizeSpeech' | 'transcribeAudio'>,
    'principal' | 'signal' | 'body'
  >;
  readonly services: Services;
}

/** What every answer tells besides what was made. */
interface Told {
  readonly model: string;
  readonly usage: Usage;
  readonly cost: number | null;
  readonly warnings: string[];
}

/** Counted when it begins, and what it used as soon as that is known. */
async function ask<Kind extends MediaKind, Answer extends { readonly warnings: readonly string[] }>(
  { kind, choice, call, services: { store, runtime, draining } }: Asking<Kind>,
  work: (model: MediaModels[Kind], call: MediaCall) => Promise<Answer>,
): Promise<{ readonly answer: Answer; readonly told: Told; readonly headers: Record<string, string> }> {
  const { principal, signal } = call;
  const workspaceId = call.body.workspace_id;
  if (draining()) throw new Problem('draining', 'The server is stopping; try again in a moment.');
  const workspace = await (workspaceId === undefined
    ? store.workspaces.defaultOf(principal)
    : store.workspaces.find(principal, workspaceId));
  if (!workspace) throw new Problem('not_found', 'No workspace has this id, or it is not yours.');
  const model = await runtime.media(kind, choice, askerIn(principal, workspace.id));
  const { apiKeyId = null } = asker(principal);
  const metered = await store.meteredCalls.begin(principal, model.name, apiKeyId, workspace);
  let spending: SpentByCall = { model: model.name, usage: nothing, cost: 0 };
  const spent = async (used: SpentByCall) => {
    spending = used;
    await store.meteredCalls.finish(metered, used);
  };
  try {
    const answer = await work(model, { signal, spent });
    const { usage, cost } = spending;
    const told = { model: model.name, usage, cost, warnings: [...answer.warnings] };
    return { answer, told, headers: quotaNotice(metered.notices) };
  } finally {
    await store.meteredCalls.end(metered);
  }
}

const nothing: Usage = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 };

function contentOf({ mediaType, bytes }: MediaFile) {
  return { media_type: mediaType, data: Buffer.from(bytes).toString('base64') };
}
