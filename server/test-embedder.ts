/** Where tests find the real embedding model: `make embedder` has put it there, before they run. */
import { readServerSettings } from './server-settings/server-settings.ts';

export const { modelsDirectory } = readServerSettings([], process.env).settings;
