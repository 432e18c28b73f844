// The list of pages, read by the menu, the keyboard shortcuts and the routes.

import type { Component } from 'svelte';
import Overview from '../pages/Overview.svelte';

export interface Page {
  path: string;
  title: string;
  key: string;
  /** Whether it is not narrowed by a range or filter. */
  timeless?: boolean;
  load: () => Promise<{ default: Component }>;
}

export const PAGES: Page[] = [
  // The first page is part of the first load, the others are loaded when they are opened.
  { path: '/', title: 'Overview', key: 'o', load: () => Promise.resolve({ default: Overview }) },
  { path: '/alerts', title: 'Alerts', key: 'a', load: () => import('../pages/Alerts.svelte') },
  { path: '/dumps', title: 'Dumps', key: 'd', timeless: true, load: () => import('../pages/Dumps.svelte') },
  { path: '/charts', title: 'Charts', key: 'c', load: () => import('../pages/Charts.svelte') },
  { path: '/talkers', title: 'Talkers', key: 't', load: () => import('../pages/Talkers.svelte') },
  { path: '/scanners', title: 'Scanners', key: 'n', load: () => import('../pages/Scanners.svelte') },
  { path: '/lists', title: 'Lists', key: 'l', load: () => import('../pages/Lists.svelte') },
  { path: '/flows', title: 'Flows', key: 'f', load: () => import('../pages/Flows.svelte') },
  { path: '/protocols', title: 'Protocols', key: 'p', load: () => import('../pages/Protocols.svelte') },
  { path: '/files', title: 'Files', key: 'i', load: () => import('../pages/Files.svelte') },
  { path: '/sensor', title: 'Sensor', key: 's', load: () => import('../pages/Sensor.svelte') },
  { path: '/configuration', title: 'Configuration', key: 'u', timeless: true, load: () => import('../pages/Configuration.svelte') },
];
