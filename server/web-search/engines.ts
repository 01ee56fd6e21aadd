/** The engines that can be asked, by the names of the contract. */
import type { WebSearchEngineName } from '../contract/api.ts';
import { brave } from './brave.ts';
import type { Engine } from './engine.ts';
import { searxng } from './searxng.ts';

export const engines: Readonly<Record<WebSearchEngineName, Engine>> = { searxng, brave };

export const engineNames = Object.keys(engines) as WebSearchEngineName[]; // its keys are the names
