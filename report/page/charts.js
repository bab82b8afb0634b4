// SPDX-License-Identifier: MIT
// Curves of quality, loss and density, the parts of a step, and the redrawing of all. Charts are rebuilt when an option
// or the colour scheme changes; hidden runs stay hidden.

function drawCurves(parentId, field, axes, weight, yType, yText, withTarget) {
  const parent = byId(parentId);
  parent.replaceChildren();
  const name = field === 'metric' ? DATA.metric.label : 'Training loss';
  axes.forEach(axisName => drawCurve(parent, `${name} against ${AXIS_NAMES[axisName]}`, visible(), field, axisName, weight, yType, yText, withTarget));
}

function drawDensity() {
  const parent = byId('density-chart');
  parent.replaceChildren();
  const styles = {local: {borderDash: []}, target: {borderDash: [6, 4], borderWidth: 1.5}, global: {borderDash: [2, 3], borderWidth: 1.5}};
  const sets = visible().flatMap(({group, index}) => Object.entries(styles).flatMap(([name, style]) => {
    const curve = group.density[name];
    const curveName = {local: 'selected', target: 'target', global: 'exchanged sum'}[name];
    return curveSets(index, curve, 'step', 0, style).slice(0, 1)
      .map(set => ({...set, label: `${group.label}, ${curveName}`, data: set.data.filter(point => point.y > 0)}));
  }));
  if (!sets.length) {
    element('p', 'No run shown here sparsifies its gradients.', parent).className = 'note';
    return;
  }
  const text = value => `${trim(100 * value, 3)} %`;
  const longest = longestOf(visible().map(entry => entry.group.density.local), 'step');
  const scale = yScale('logarithmic', text);
  scale.afterBuildTicks = built => {
    built.ticks = built.ticks.filter(tick => /^[125]/.test(tick.value.toExponential()));
  };
  lineChart(card(parent, 'Density against steps'), sets, {x: xScale('step', longest), y: scale}, xTexts.step, text);
}

function drawTimes() {
  const parent = byId('time-chart');
  parent.replaceChildren();
  const canvas = card(parent, 'Seconds of a step by part');
  const shown = visible();
  const verbs = DATA.verbs.filter(verb => shown.some(({group}) => group.seconds[verb] > 0));
  describe(canvas, [['Run', ...verbs.map(verb => verb.replace('_', ' + '))],
    ...shown.map(({group}) => [group.label, ...verbs.map(verb => secondsText(group.seconds[verb] || 0))])]);
  charts.push(new Chart(canvas, {
    type: 'bar',
    data: {
      labels: shown.map(({group}) => group.label),
      datasets: verbs.map(verb => ({
        label: verb.replace('_', ' + '),
        data: shown.map(({group}) => group.seconds[verb] || 0),
        backgroundColor: cssColor(`--v-${verb}`), borderColor: cssColor('--card'), borderWidth: 1, maxBarThickness: 34,
      })),
    },
    options: {
      animation: false, responsive: true, maintainAspectRatio: false, indexAxis: 'y',
      scales: {
        x: {stacked: true, grid: {color: cssColor('--grid')}, ticks: {color: cssColor('--muted'), maxTicksLimit: 8,
          callback: value => secondsText(value)}},
        y: {stacked: true, grid: {display: false}, ticks: {color: cssColor('--ink')}},
      },
      plugins: {
        legend: {position: 'bottom', labels: {color: cssColor('--ink'), boxWidth: 11, boxHeight: 11}},
        tooltip: {callbacks: {label: item => `${item.dataset.label}: ${secondsText(item.parsed.x)}`}},
      },
    },
  }));
}

function redraw() {
  charts.forEach(chart => chart.destroy());
  charts = [];
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  const weight = Number(byId('smoothing').value);
  drawLegend();
  drawResults();
  const axisPercent = value => DATA.metric.share ? `${trim(100 * value, 3)} %` : plainText(value);
  drawPays(axisPercent);
  // Time against quality is above where there are both clocks.
  drawCurves('metric-charts', 'metric', DATA.clock.has_ideal ? ['step', 'bytes'] : ['step', 'time', 'bytes'], 0, 'linear', axisPercent, true);
  drawCurves('loss-charts', 'loss', ['step', 'time', 'bytes'], weight, byId('log-loss').checked ? 'logarithmic' : 'linear', plainText, false);
  byId('loss-note').textContent = `Mean over the global batch${weight > 0 ? `, smoothed (weight ${weight})` : ''}` +
    `${hasBands() ? '; bands show the range over seeds' : ''}.`;
  drawDensity();
  drawTimes();
  drawQuality(weight);
  drawTraces(weight);
  drawFits();
}

drawTexts();
drawDifferences();
redraw();
for (const id of ['smoothing', 'log-loss', 'log-bytes']) byId(id).addEventListener('input', redraw);
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
