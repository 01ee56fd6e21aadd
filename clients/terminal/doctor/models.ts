/** Checks of the models: whether anything can be asked, and what is chosen can be. */
import { connect } from 'node:net';
import { placeOfEntry } from '../origin-of.ts';
import type { Finding, SettledScene } from './examination.ts';
import { findingOf } from './settings.ts';

/** How long servers on this machine may take to say that they are there. */
const localMs = 500;

/** Every provider that is named; what is wrong with one, and whether any is left. */
export async function examineProviders({ loaded, environment }: SettledScene): Promise<Finding[]> {
  const { discoverLocalProviders, listProviders } = await import('../../../server/config/config.ts');
  const listed = await listProviders(loaded.config, environment);
  const usable = listed.filter(({ state }) => state === 'usable').map(({ id }) => id);
  const local = await discoverLocalProviders(fetch, localMs);
  const chosen = [loaded.config.models?.large?.provider, loaded.config.models?.small?.provider];
  const faulty = listed.flatMap(({ id, fault }): Finding[] => {
    if (!fault) return [];
    const place = placeOfEntry(loaded, 'providers', id);
    // What nobody chose may stay unusable.
    const level = chosen.includes(id) ? 'problem' : 'warning';
    return [
      { level, message: `The provider ${id} cannot be used: ${fault.message}.`, remedy: fault.remedy, place },
    ];
  });
  const ids = [...usable, ...local.map(({ id }) => id)];
  if (ids.length === 0) return [nothingToAsk, ...faulty];
  return [{ level: 'ok', message: `These can be asked: ${ids.join(', ')}.` }, ...faulty];
}

const nothingToAsk: Finding = {
  level: 'problem',
  message: 'No model provider can be asked.',
  remedy: 'Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or add a provider to service.json.',
};

/** Whether the models that are chosen are those of a provider that can be asked. */
export async function examineModels({ loaded, environment }: SettledScene): Promise<Finding[]> {
  const { checkModels, discoverLocalProviders, resolveProviders } = await import(
    '../../../server/config/config.ts'
  );
  const { candidates } = await resolveProviders(loaded.config, environment);
  const providers = [...candidates, ...(await discoverLocalProviders(fetch, localMs))];
  const found = (await checkModels(loaded.config, providers)).map((diagnostic) =>
    findingOf({ ...diagnostic, place: loaded.origin(diagnostic.pointer)?.place ?? null }),
  );
  const { large, small } = loaded.config.models ?? {};
  const chosen = [
    large && `large ${large.provider}:${large.model}`,
    small && `small ${small.provider}:${small.model}`,
  ];
  const named = chosen.filter(Boolean).join(', ');
  const message = named ? `Chosen: ${named}.` : 'None is chosen; the first one does all the work.';
  return found.length > 0 ? found : [{ level: 'ok', message }];
}

/** Servers of models on this machine that are not there. Nobody else is asked anything. */
export async function examineLocalServers({ loaded }: SettledScene): Promise<Finding[]> {
  const entries = Object.entries(loaded.config.providers ?? {}).filter(([, { disable }]) => !disable);
  const findings = await Promise.all(
    entries.map(async ([id, { base_url = '' }]): Promise<Finding[]> => {
      const url = localUrl(base_url);
      if (!url || (await answers(url))) return [];
      const place = placeOfEntry(loaded, 'providers', id);
      const message = `Nothing listens at ${url.host}, where the provider ${id} is.`;
      return [{ level: 'warning', message, remedy: 'Start it, or correct its base_url.', place }];
    }),
  );
  const told = findings.flat();
  return told.length > 0 ? told : [{ level: 'ok', message: 'No server on this machine is missing.' }];
}

/** Only an address that is written out: what a template would give is not worked out here. */
function localUrl(written: string): URL | null {
  const url = URL.canParse(written) && !written.includes('$') ? new URL(written) : null;
  return url && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname) ? url : null;
}

async function answers({ hostname, port, protocol }: URL): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const number = Number(port || (protocol === 'https:' ? 443 : 80));
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: number, timeout: localMs });
  socket.once('connect', () => resolve(true));
  socket.once('error', () => resolve(false));
  socket.once('timeout', () => resolve(false));
  return await promise.finally(() => socket.destroy());
}
